"""The awaited client, which is written by hand."""
