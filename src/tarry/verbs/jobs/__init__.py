"""Jobs: the verbs of a topic."""
