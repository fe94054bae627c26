"""Queues and map caches shared with Java applications on Redisson, for all clients."""
