"""tarry: delayed jobs on Redis and Valkey. Put a job in now, get it out when it is due."""

from tarry.clients.sync.client import Client
from tarry.clients.sync.topic import Job, Topic

__all__ = ["Client", "Job", "Topic"]
