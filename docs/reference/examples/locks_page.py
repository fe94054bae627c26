"""The examples of docs/reference/locks.md, a cell for each name. The tests run that page."""

# %% Lock
import tarry

client = tarry.Client()
stock = client.lock("stock", wait="5s")
with stock:  # NotAcquired if somebody else has it for longer
    assert stock.held()
    assert stock.state().depth == 1

# %% Lock.acquire
grant = stock.acquire(wait=0, lease="1m")  # 0 tries once
assert grant is not None

# %% Lock.release
stock.release()

# %% Lock.force_release
grant = stock.acquire()
assert stock.force_release()

# %% Grant
with client.lock("till", lease="1m") as grant:
    print("write with the token", grant.token)
    print("ends in", grant.remaining)
    grant.on_lost(lambda: print("stop!"))
    grant.check()  # asks the server; LockLost if it is no longer held

# %% Grant.release
grant = client.lock("till").acquire()
assert grant is not None
grant.release()

# %% Grant.guard
with client.lock("till") as grant, grant.guard():
    print("LockLost is raised at the end if it was lost meanwhile")

# %% LockState
state = client.lock("till").state()
assert state.held is False and state.holder is None

# %% LockLostEvent
with client.lock("till") as grant:
    assert not grant.lost.is_set()
    assert grant.lost.wait("10ms") is False

# %% AsyncLock
import asyncio


async def main() -> None:
    async with tarry.AsyncClient() as client:
        async with client.lock("stock", wait="5s") as grant:
            print(grant.token)


asyncio.run(main())


# %% AsyncGrant
async def guarded() -> None:
    async with tarry.AsyncClient() as client, client.lock("stock") as grant, grant.guard():
        await grant.check()  # the block is cancelled at the moment when the lock is lost


asyncio.run(guarded())


# %% AsyncLockLostEvent
async def until_lost() -> None:
    async with tarry.AsyncClient() as client, client.lock("stock") as grant:
        assert await grant.lost.wait("10ms") is False


asyncio.run(until_lost())
client.close()

# %% zookeeper.Client (not run: needs a ZooKeeper; the tests run the same)
from tarry import zookeeper

locks = zookeeper.Client("zk1:2181,zk2:2181", namespace="shop")
with locks.lock("stock", wait="5s", lease="1m") as grant:
    print(grant.token)
assert locks.locks() == ["stock"]
locks.close()  # releases every lock that is held


# %% zookeeper.AsyncClient (not run: needs a ZooKeeper; the tests run the same)
async def on_zookeeper() -> None:
    async with zookeeper.AsyncClient("zk1:2181,zk2:2181") as locks, locks.lock("stock") as grant:
        print(grant.token)


asyncio.run(on_zookeeper())
