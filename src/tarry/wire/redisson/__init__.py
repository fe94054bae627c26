"""Endpoints, requests and answers of the queues and maps that are shared with Java."""
