"""The words everything is said in: keys, durations, names, settings."""
