"""How a server is found, reached and started: the only package that knows a driver."""
