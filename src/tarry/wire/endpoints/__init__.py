"""The endpoints of the API, by module; ``programs/service/routes`` has their handlers."""
