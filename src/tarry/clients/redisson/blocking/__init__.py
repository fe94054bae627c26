"""Shared queues and map caches of the blocking client."""
