"""The links: how a server is reached, started or joined."""
