"""Endpoints, requests and answers of the queues and maps shared with Java."""
