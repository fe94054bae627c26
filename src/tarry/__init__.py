"""tarry: delayed jobs on Redis and Valkey. Put a job in now, get it out when it is due."""
