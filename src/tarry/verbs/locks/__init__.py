"""Locks: one implementation of holding and waiting, two backends.

lock_table.py         the holds and acquisitions of one process
lock_steps.py         acquire, release, check as steps
redis_backend.py      in Redis, with the bytes of Redisson's RLock; lock_scripts.py are its requests
zookeeper_backend.py  in ZooKeeper, as ephemeral sequential nodes; zookeeper_requests.py has its requests and nodes
lock_values.py        what is known of a lock
"""
