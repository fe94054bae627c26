"""The verbs: pure functions that return what to do."""
