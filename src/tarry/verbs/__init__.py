"""The verbs: pure functions that return requests and flows, and know no client."""
