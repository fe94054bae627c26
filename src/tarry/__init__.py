"""tarry: delayed jobs on Redis and Valkey. Put a job in now, get it out when it is due.

client = tarry.Client()                              # or tarry.AsyncClient(), the same with await
orders = client.topic("orders")
orders.add({"order": 7}, delay="30m", id="7")        # close it in half an hour
orders.delete("7")                                   # it was paid
with orders.pop(wait=60) as job: ...                 # somebody closes what was not
"""

from tarry import errors
from tarry.clients.aio.client import AsyncClient
from tarry.clients.aio.topic import AsyncJob, AsyncTopic
from tarry.clients.sync.client import Client
from tarry.clients.sync.topic import Job, Topic
from tarry.errors import (
    BadInput,
    BodyError,
    JobExists,
    NotAcquired,
    ServerUnfit,
    StaleReceipt,
    TarryError,
    Unavailable,
)
from tarry.verbs.codecs import Codec
from tarry.verbs.jobs.shapes import (
    Added,
    Check,
    Defaults,
    HandedOut,
    Histogram,
    Holding,
    IfExists,
    JobInfo,
    Lateness,
    NewJob,
    Page,
    Reservation,
    State,
    Stats,
)
from tarry.words.durations import Duration

__version__ = "0.1.0"

__all__ = [
    "Added",
    "AsyncClient",
    "AsyncJob",
    "AsyncTopic",
    "BadInput",
    "BodyError",
    "Check",
    "Client",
    "Codec",
    "Defaults",
    "Duration",
    "HandedOut",
    "Histogram",
    "Holding",
    "IfExists",
    "Job",
    "JobExists",
    "JobInfo",
    "Lateness",
    "NewJob",
    "NotAcquired",
    "Page",
    "Reservation",
    "ServerUnfit",
    "StaleReceipt",
    "State",
    "Stats",
    "TarryError",
    "Topic",
    "Unavailable",
    "errors",
]
