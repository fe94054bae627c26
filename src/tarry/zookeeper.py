"""tarry.zookeeper: the same locks, kept in ZooKeeper. Needs the extra ``tarry[zookeeper]``.

    from tarry import zookeeper

    locks = zookeeper.Client("zk1:2181,zk2:2181,zk3:2181")      # made once; close() releases every lock
    with locks.lock("stock", wait="5s", lease="1m") as grant:
        store.write(row, token=grant.token)

The locks are fair, and belong to a session: a process that dies or is cut off loses them when its session ends.
"""

from tarry.clients.awaited.locks import AsyncGrant as AsyncGrant
from tarry.clients.awaited.locks import AsyncLock as AsyncLock
from tarry.clients.awaited.zookeeper import AsyncClient as AsyncClient
from tarry.clients.blocking.locks import Grant as Grant
from tarry.clients.blocking.locks import Lock as Lock
from tarry.clients.blocking.zookeeper import Client as Client

__all__ = ["AsyncClient", "AsyncGrant", "AsyncLock", "Client", "Grant", "Lock"]
