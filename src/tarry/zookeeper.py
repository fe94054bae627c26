"""tarry.zookeeper: the same locks, kept in ZooKeeper. Needs the extra ``tarry[zookeeper]``.

    from tarry import zookeeper

    locks = zookeeper.Client("zk1:2181,zk2:2181,zk3:2181")      # made once; closing it gives every lock back
    with locks.lock("stock", wait="5s", lease="1m") as grant:
        store.write(row, token=grant.token)

They are fair, and they live with a session: a process that dies, or is cut off, loses them when its session ends.
"""

from tarry.clients.aio.ensembles import AsyncClient as AsyncClient
from tarry.clients.aio.locks import AsyncGrant as AsyncGrant
from tarry.clients.aio.locks import AsyncLock as AsyncLock
from tarry.clients.sync.ensembles import Client as Client
from tarry.clients.sync.locks import Grant as Grant
from tarry.clients.sync.locks import Lock as Lock

__all__ = ["AsyncClient", "AsyncGrant", "AsyncLock", "Client", "Grant", "Lock"]
