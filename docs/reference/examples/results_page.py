"""The examples of docs/reference/results.md, a cell for each name. The tests run that page."""

# %% Added

from typing import Any

import tarry

client = tarry.Client()
orders = client.topic("orders")
added = orders.add({"order": 7}, delay="30m", id="7")
assert (added.id, added.is_new, added.state) == ("7", True, "delayed")
print("due", added.due)

# %% JobInfo
info = orders.get("7")
assert info is not None
assert info.body == {"order": 7} and info.attempts == 0 and info.error is None

# %% JobPage
page = orders.list("delayed")
assert [info.id for info in page] == ["7"] and page.cursor is None

# %% State
state: tarry.types.State | None = orders.delete("7")
assert state == "delayed"

# %% JobState
states: set[tarry.types.JobState] = {"ready", "finished"}
assert orders.add({"order": 8}, id="8").state in states

# %% StateFilter
which: tarry.types.StateFilter = "retrying"
assert orders.purge(which) == 0


# %% BaseJob
def show(job: tarry.types.BaseJob[Any]) -> None:  # popped by either client, or given to a handler
    print(job.id, job.body, "attempt", job.attempt, "late by", job.lateness)
    job.step("mail", lambda: "sent")


job = orders.pop()
assert job is not None
show(job)
assert job.steps == {"mail": "sent"}


# %% HasReceipt
def finish(topic: tarry.Topic[Any], job: tarry.types.HasReceipt) -> None:
    topic.finish(job)


# %% Reservation
finish(orders, tarry.Reservation(job.id, job.receipt))  # also in another process

# %% FailedAttempt
orders.add({"order": 9}, id="9")
job = orders.pop()
assert job is not None
job.release(delay="1h", reason="the bank is closed")
info = orders.get("9")
assert info is not None
assert [failed.error for failed in info.failed_attempts] == ["the bank is closed"]

# %% DeadGroups
orders.reschedule("9", delay=0)
job = orders.pop(wait="1s")
assert job is not None
job.bury(reason="no such customer")
groups = orders.dead_groups()
while groups.cursor:
    groups += orders.dead_groups(cursor=groups.cursor)

# %% DeadGroup
for group in groups:
    print(group.count, group.error, group.samples)

# %% Stats
now = orders.stats()
assert (now.delayed, now.ready, now.reserved, now.dead) == (0, 0, 0, 1)

# %% Lateness
earlier = now.lateness
orders.add({"order": 10})
job = orders.pop()
lateness = orders.stats().lateness.since(earlier)
assert lateness.count == 1
print("half of the jobs were late by at most", lateness.p50)

# %% Lateness.of
assert tarry.types.Lateness.of({**earlier.buckets, **lateness.buckets}).count >= 1  # of several topics together

# %% LimitStatus
orders.pause("10m")
orders.add({"order": 11})
limited = orders.stats().limited
assert limited is not None and limited.reason == "pause"

# %% Histogram
histogram = orders.histogram(span="1h", buckets=60)
busiest = max(range(60), key=lambda minute: histogram.counts[minute])
print("most jobs are due at", histogram.start + busiest * histogram.width)

# %% MinuteCounts
for minute in orders.throughput(span="1h"):
    print(minute.start, minute.added, minute.finished, minute.failed, minute.died)

# %% KeyStats
found = orders.stats(key="customer-7")
if found.limited is not None:
    print(f"{found.held_back} jobs of {found.key} wait: {found.limited.reason}")

# %% TopicSettings
settings = orders.configure(ttr="2m", max_attempts=5)
assert settings.max_attempts == 5 and settings.max_pending is None

# %% TopicSettings.attempts_of
info = orders.get("9")
assert info is not None
assert settings.attempts_of(info, None) is None  # a handler whose max_attempts is None has no limit

# %% Rate
settings = orders.configure(rate="100/1m")
assert settings.rate is not None and settings.rate.count == 100

# %% CheckReport
report = orders.check()
assert report.ok and report.faults == ()

# %% Migrated
with tarry.Client(namespace="archive") as archive:
    done = client.migrate(orders, archive.topic("orders"), dry_run=True)
print(done.moved, "jobs would be moved,", done.reserved, "stay because they run")

# %% Duration
half_an_hour: list[tarry.types.Duration] = [1800, "30m", "PT30M"]
for delay in half_an_hour:
    orders.add({"order": 12}, delay=delay)


# %% Codec
class Upper:
    """A codec needs these two methods."""

    def encode(self, body: str, /) -> bytes:
        return body.upper().encode()

    def decode(self, raw: bytes, /) -> str:
        return raw.decode()


names: tarry.types.Codec[str] = Upper()
people = client.topic("people", type=names)
people.add("ada")
job = people.pop()
assert job is not None and job.body == "ADA"

# %% __version__
print(tarry.__version__)
client.close()
