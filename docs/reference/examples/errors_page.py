"""The examples of docs/reference/errors.md, a cell for each name. The tests run that page."""

# %% TarryError
import tarry
from tarry import errors

client = tarry.Client()
orders = client.topic("orders")
try:
    orders.add({"order": 7}, delay="soon")
except tarry.TarryError as fault:  # all of them
    assert fault.code == "bad_input"

# %% BadInput
try:
    orders.add({"order": 7}, priority=9)
except tarry.BadInput as fault:
    print(fault)

# %% JobExists
orders.add({"order": 7}, id="7")
try:
    orders.add({"order": 7}, id="7")
except tarry.JobExists as fault:
    assert (fault.id, fault.state) == ("7", "ready")

# %% TopicFull
full = client.topic("full")
full.configure(max_pending=1)
full.add(1)
try:
    full.add(2)
except tarry.TopicFull as fault:
    assert fault.topic == "full"

# %% UnknownTopic sh
# tarry stats nowhere || echo "it ended with $?"

# %% UnknownTopic
unknown = errors.UnknownTopic(topic="nowhere")  # no verb of a client raises it
assert unknown.code == "unknown_topic"

# %% StaleReceipt
job = orders.pop()
assert job is not None
job.finish()
try:
    orders.finish(tarry.Reservation(job.id, job.receipt + 1))
except tarry.StaleReceipt as fault:
    assert fault.id == "7" and fault.reason == "gone"
orders.add_many([1, 2, 3])
jobs = orders.pop_many(3)
orders.delete(jobs[0].id, running=True)
try:
    orders.finish_many(jobs)
except tarry.StaleReceipt as fault:
    assert fault.reasons == {jobs[0].id: "gone"}  # the others are finished

# %% StepNotKept
orders.add({"order": 8})
job = orders.pop()
assert job is not None
try:
    job.step("charge", lambda: object())  # no JSON
except tarry.StepNotKept as fault:
    assert fault.step == "charge"

# %% BodyError
client.topic("numbers").add("seven")
job = client.topic("numbers", type=int).pop()
assert job is not None
try:
    print(job.body)
except tarry.BodyError:
    job.bury(reason="no number")

# %% NotKept
try:
    orders.ends().next()
except errors.NotKept as fault:
    assert fault.topic == "orders"

# %% NoResult
try:
    orders.result("7")
except tarry.NoResult as fault:
    assert fault.reason == "unknown"

# %% Unavailable
try:
    tarry.Client("redis://127.0.0.1:1", patience=0).topic("orders").add(1)
except tarry.Unavailable as fault:
    print(fault, fault.done)

# %% Unconfirmed
try:
    orders.add({"order": 9}, durability="replicated")
except tarry.Unconfirmed as fault:  # this server has no replica; the job is there
    print(fault)

# %% ServerUnfit
try:
    tarry.Client("redis+sentinel://127.0.0.1:1/main", patience=0).topics()
except (tarry.ServerUnfit, tarry.Unavailable) as fault:
    print(fault)

# %% MissingExtra
try:
    import tarry.zookeeper
except tarry.MissingExtra as fault:  # without kazoo
    print(fault)

# %% NotAllowed
refused = tarry.NotAllowed()  # what HTTPClient raises for a token that the service refuses
assert isinstance(refused, PermissionError)

# %% NotAcquired
import threading


def second() -> None:
    try:
        with client.lock("stock", wait=0):
            print("not reached")
    except tarry.NotAcquired as fault:
        print(fault)


with client.lock("stock"):
    other = threading.Thread(target=second)
    other.start()
    other.join()

# %% LockLost
try:
    with client.lock("stock"):
        client.lock("stock").force_release()
except tarry.LockLost as fault:
    assert fault.name == "stock" and fault.token > 0

# %% FallenBehind
late = client.guarded_queue("late", max_lateness="1ms")
late.push({"order 7": 0})
threading.Event().wait(0.01)
try:
    late.poll()
except errors.FallenBehind as fault:
    assert fault.lateness is not None and fault.lateness.total_seconds() > 0.001
client.close()
