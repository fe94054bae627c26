"""The endpoints of the API: method, path, scopes, models. ``programs/service/routes`` has their handlers."""
