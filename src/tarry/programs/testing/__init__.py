"""For users' tests: the pytest plugin, and test clocks that also run workers."""
