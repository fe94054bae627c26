"""The routes of the queues and maps that are shared with Java."""
