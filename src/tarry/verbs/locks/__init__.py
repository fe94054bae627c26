"""Locks: one way to hold and to wait, two places where locks are kept.

house.py       who holds and who waits in one process
acquiring.py   acquire, release, check as steps; what the watchdog does
rlock.py       kept in Redis, with the bytes of Redisson's RLock
nodes.py       kept in ZooKeeper, as ephemeral nodes in sequence
"""
