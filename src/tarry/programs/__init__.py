"""The programs: command line, worker, demo."""
