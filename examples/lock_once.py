"""DistributedLock, as the Java design of guarded queues has it: lockOnce(key), (key, wait), (key, wait, lease), times in milliseconds.

Its defaults: wait for 1000 ms, hold for 2000 ms at most. It works with both kinds of lock:

    DistributedLock(tarry.Client())
    DistributedLock(tarry.zookeeper.Client("localhost:2181", namespace="longjuanfeng_test1", session_timeout=2))

Unlike the original, it does not poll; an expired lock is released without a cleaner thread or reflection; and unlocking too
late returns false.
"""

from __future__ import annotations

from typing import Any

from tarry.errors import BadInput, LockLost, NotAcquired


class DistributedLock:
    def __init__(self, client: Any) -> None:
        self.client = client

    def lock_once(self, key: str, wait_ms: int = 1000, lock_ms: int = 2000) -> bool:
        if wait_ms < 0 or not key:
            raise BadInput("lock_once: a key, and a wait of 0 ms or more.")
        lock = self.client.lock(key)
        if lock.held():
            return False  # not reentrant: the original's map has the key already
        return lock.acquire(wait=wait_ms / 1000, lease=lock_ms / 1000) is not None

    def unlock(self, key: str) -> bool:
        """Releases the lock; returns whether it was still held."""
        try:
            self.client.lock(key).release()
        except (LockLost, NotAcquired):
            return False
        return True

    def destroy(self) -> None:
        self.client.close()
