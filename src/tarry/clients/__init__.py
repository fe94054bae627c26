"""The clients: the same verbs, blocking, awaited, or with imaginary time."""
