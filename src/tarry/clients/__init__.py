"""The clients: the same verbs, blocking, awaited, over HTTP, or with imaginary time."""
