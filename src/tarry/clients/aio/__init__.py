"""The awaiting client."""
