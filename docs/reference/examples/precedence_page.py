"""The example of docs/reference/precedence.md. The tests run that page."""

# %% precedence
from datetime import timedelta

import tarry

with tarry.Client() as client:
    orders = client.topic("orders")
    orders.configure(ttr="2m")
    orders.add_many([tarry.NewJob({"order": 7}, ttr="5m"), {"order": 8}, {"order": 9}])
    times = [job.ttr for job in [orders.pop(ttr="1m"), orders.pop(ttr="1m"), orders.pop()] if job is not None]
    assert times == [timedelta(minutes=5), timedelta(minutes=1), timedelta(minutes=2)]  # the job, the pop, the topic
