"""Requests, flows and waits as values, and the loading of scripts. No clock, no socket, no thread."""
