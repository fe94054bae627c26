"""Guarded queues: a sorted set of items by their due times. They are polled when they are due, with their lateness.

guarded_context.py  what the verbs need; the layouts of an item in the set
guarded_scripts.py  each verb as one script: atomic, no lock needed
plain_commands.py   each verb with plain commands, for servers without scripts: under a lock, with its fencing token
"""
