"""The pytest plugin for users' tests, with test clocks that also run workers."""
