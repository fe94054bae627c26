"""Queues and map caches that are shared with Java applications on Redisson, for all clients."""
