"""Requests, flows and waits as values; script loading; the watch. No clock, no socket, no thread."""
