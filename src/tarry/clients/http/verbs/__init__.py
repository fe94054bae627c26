"""The verbs of handles as requests to a service, a module for each kind of handle."""
