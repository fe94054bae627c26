"""The programs: command line, worker, service, dashboard, demo; the pytest plugin."""
