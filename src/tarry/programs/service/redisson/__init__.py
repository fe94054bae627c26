"""The routes of the queues and maps shared with Java."""
