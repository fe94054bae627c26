"""Shared queues and map caches of the awaited client."""
