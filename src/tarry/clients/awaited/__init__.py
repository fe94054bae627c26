"""The awaited client."""
