"""The idea: calls, waits and flows as values; script loading; the watch."""
