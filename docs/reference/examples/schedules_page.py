"""The examples of docs/reference/schedules.md, a cell for each name. The tests run that page."""

# %% Schedules
from datetime import datetime, timedelta, timezone

import tarry

client = tarry.Client()
schedules = client.schedules
schedules.put("reports", "daily", {"kind": "sales"}, cron="0 9 * * 1-5", tz="Europe/Berlin")
schedules.put("reports", "ping", every="5m")
assert {one.id for one in schedules.list("reports")} == {"daily", "ping"}
assert schedules.get("reports", "ping") is not None
assert schedules.pause("reports", "ping") and schedules.resume("reports", "ping")
assert schedules.delete("reports", "ping")

# %% Schedule
daily = schedules.get("reports", "daily")
assert daily is not None
assert daily.body == {"kind": "sales"} and daily.cron == "0 9 * * 1-5" and not daily.paused

# %% Schedule.following
now = datetime.now(timezone.utc)
assert len(daily.following(3, now)) == 3

# %% Schedule.missed_by
assert len(daily.missed_by(now + timedelta(days=30), 100)) == 1  # missed="once": one job for all of them
client.close()

# %% AsyncSchedules
import asyncio


async def main() -> None:
    async with tarry.AsyncClient() as client:
        await client.schedules.put("reports", "hourly", every="1h")
        assert await client.schedules.get("reports", "hourly") is not None


asyncio.run(main())
