"""Article 002's queue: a sorted set of items by their due times, taken out when they are due, with how late they are.

desk.py       layouts: what an item is in the set
scripted.py   each verb one script: atomic, no lock needed
plain.py      the same with plain commands, for servers without scripts: under a lock, with its fencing token
"""
