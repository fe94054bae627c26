"""The examples of docs/reference/events.md, a cell for each name. The tests run that page."""

# %% Ends
from datetime import datetime, timezone

import tarry

client = tarry.Client()
orders = client.topic("orders")
orders.configure(keep_finished="1d")
ends = orders.ends(wait="1s")  # from now on; with `since=` from a moment or a position
orders.add({"order": 7}, id="7")
job = orders.pop(wait="1s")
assert job is not None
job.finish(result="paid")
for end in ends:  # until none has come for a second
    print(end)
assert ends.next() is None
last = ends.position  # `orders.ends(since=last)` goes on behind it
ends.close()

# %% End
beginning = datetime.fromtimestamp(0, timezone.utc)
ends = orders.ends(since=beginning)
first = ends.next()
first = ends.next() if isinstance(first, tarry.UnknownEnds) else first
assert isinstance(first, tarry.End)
assert (first.job.id, first.state, first.job.result) == ("7", "finished", "paid")
ends.close()

# %% EndState
ended: tarry.types.EndState = first.state
assert ended == "finished"

# %% UnknownEnds
for found in orders.ends(since=beginning, wait=0):
    if isinstance(found, tarry.UnknownEnds):
        print("nothing is known between", found.since, "and", found.until)
client.close()

# %% AsyncEnds
import asyncio


async def main() -> None:
    async with tarry.AsyncClient() as client:
        async for end in client.topic("orders").ends(wait=0):
            print(end)


asyncio.run(main())
