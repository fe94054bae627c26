"""The operations of SQS, each as a few calls of a topic's verbs."""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID, uuid4

import msgspec
from msgspec import Meta, Struct

from tarry import NewJob
from tarry.errors import BadInput, StaleReceipt, TopicFull
from tarry.internal import JobOptions, perform, server_verbs
from tarry.programs.sqs import messages
from tarry.programs.sqs.faults import (
    SqsError,
    bad_handle,
    bad_handle_of_entry,
    fault_of,
    invalid,
    too_long,
    unknown_queue,
)
from tarry.programs.sqs.messages import AttributeValue
from tarry.programs.sqs.queues import (
    LONGEST_DELAY_S,
    LONGEST_INVISIBLE_S,
    LONGEST_RECEIVE_S,
    MOST_BYTES,
    Queue,
    Queues,
    checked_attributes,
    checked_tags,
    is_name,
    read_now,
)
from tarry.wire.endpoint import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Scope

if TYPE_CHECKING:
    from tarry import Added, AsyncJob, AsyncTopic
    from tarry.programs.serving.request import ServiceRequest
    from tarry.wire.bodies import Body

ROOT = "/sqs"
MOST_ENTRIES = 10
MOST_LISTED = 1000
MOST_RECEIVES = 5
"""How often a change of visibility follows a message that is received again meanwhile."""
SHORTEST_TTR = "1ms"
"""A visibility timeout of 0."""
_LATE = ("timed out", "released")
"""Reasons why a receipt is stale while no other receiver has the message."""
T = TypeVar("T")
Answer = dict[str, Any]
Delay = Annotated[int, Meta(ge=0, le=LONGEST_DELAY_S)]
Timeout = Annotated[int, Meta(ge=0, le=LONGEST_INVISIBLE_S)]
EntryId = Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{1,80}$")]


class Params(Struct, rename="pascal", kw_only=True):
    """Parameters; unknown ones are ignored."""

    queue_url: str = ""


class NewQueue(Params):
    queue_name: str
    attributes: dict[str, str] = {}
    tags: dict[str, str] = msgspec.field(default_factory=dict, name="tags")


class QueueName(Params):
    queue_name: str
    queue_owner_account: str | None = msgspec.field(default=None, name="QueueOwnerAWSAccountId")


class PageOfQueues(Params):
    queue_name_prefix: str = ""
    next_token: str | None = None
    max_results: Annotated[int, Meta(ge=1, le=MOST_LISTED)] | None = None


class NewAttributes(Params):
    attributes: dict[str, str]


class AttributeNames(Params):
    attribute_names: list[str] = []


class NewTags(Params):
    tags: dict[str, str]


class TagKeys(Params):
    tag_keys: list[str]


class Message(Params):
    message_body: str
    delay_seconds: Delay | None = None
    message_attributes: dict[str, AttributeValue] = {}
    message_system_attributes: dict[str, AttributeValue] = {}
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class MessageEntry(Message):
    id: str = ""


class Receive(Params):
    attribute_names: list[str] = []
    message_system_attribute_names: list[str] = []
    message_attribute_names: list[str] = []
    max_number_of_messages: Annotated[int, Meta(ge=1, le=10)] = 1
    visibility_timeout: Timeout | None = None
    wait_time_seconds: Annotated[int, Meta(ge=0, le=LONGEST_RECEIVE_S)] | None = None


class Handle(Params):
    receipt_handle: str


class HandleEntry(Handle):
    id: str = ""


class Visibility(Handle):
    visibility_timeout: Timeout


class VisibilityEntry(Visibility):
    id: str = ""


class Entries(Params):
    """Entries are checked one by one: a bad one fails alone."""

    entries: list[dict[str, Any]] = []


class Call:
    """One call: the request, and what it says of its queue."""

    def __init__(self, request: ServiceRequest, region: str, identity: bytes, *, strings_only: bool) -> None:
        self.request = request
        self.identity = identity
        """The same when the call is repeated; empty if nothing tells."""
        self.region = region
        self.strings_only = strings_only
        """All values are text, as in the query protocol."""
        self.queues = Queues(request)

    def parse(self, model: type[T], given: Any) -> T:
        try:
            return msgspec.convert(given, model, strict=not self.strings_only)
        except msgspec.ValidationError as fault:
            text = str(fault)
            if text.startswith("Object missing required field"):
                raise SqsError(
                    "MissingParameter", f"The request must contain the parameter {text.split('`')[1]}."
                ) from None
            name = text.rpartition("$.")[2].strip("`") if "$." in text else "request"
            raise SqsError(
                "InvalidParameterValue", f"Invalid value for the parameter {name}. Reason: {text}."
            ) from None

    def url(self, queue: Queue) -> str:
        host = self.request.headers.get(b"host", b"localhost").decode("latin-1")
        scope = self.request.scope
        return f"{scope.get('scheme', 'http')}://{host}{scope.get('root_path', '')}{ROOT}/{quote(queue.account, safe='')}/{queue.name}"

    async def queue(self, params: Params) -> Queue:
        """The queue that the parameters name, or the path. Raises ``SqsError``."""
        if not params.queue_url:
            raise SqsError("MissingParameter", "The request must contain the parameter QueueUrl.")
        try:
            parts = urlsplit(params.queue_url).path.rstrip("/").split("/")
        except ValueError:
            raise unknown_queue() from None
        if len(parts) > 1 and unquote(parts[-2]) != self.request.namespace:
            raise unknown_queue()
        return await self.queues.get(parts[-1])

    def topic(self, queue: Queue) -> AsyncTopic[Body]:
        return self.request.topic_named(queue.name)

    def count(self, jobs: int) -> None:
        self.request.app.authorizer.count_jobs(self.request.credential, jobs)

    def message_id(self, queue: Queue, index: int, message: Message) -> str:
        """A message's id: the same when an SDK repeats its call, or anybody a signed request, so that it is not added twice. It depends on
        everything that the call says of the message."""
        if not self.identity:
            return str(uuid4())
        said = msgspec.json.encode(message)
        made = sha256(b"%s\0%s\0%d\0%s" % (self.identity, queue.name.encode(), index, said)).digest()
        return str(UUID(bytes=made[:16], version=4))


# ── queues ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def create_queue(call: Call, params: NewQueue) -> Answer:
    queue = await call.queues.create(params.queue_name, params.attributes, params.tags)
    return {"QueueUrl": call.url(queue)}


async def get_queue_url(call: Call, params: QueueName) -> Answer:
    if params.queue_owner_account not in (None, call.request.namespace):
        raise unknown_queue()
    return {"QueueUrl": call.url(await call.queues.get(params.queue_name))}


async def list_queues(call: Call, params: PageOfQueues) -> Answer:
    prefix = params.queue_name_prefix
    if prefix and not is_name(prefix):
        return {}
    return await _page(call, params, "QueueUrls", prefix)


async def list_dead_letter_source_queues(call: Call, params: PageOfQueues) -> Answer:
    target = (await call.queue(params)).name

    def is_source(queue: Queue) -> bool:
        return queue.redrive is not None and queue.redrive.name == target

    return {"queueUrls": [], **await _page(call, params, "queueUrls", "", is_source)}


async def _page(
    call: Call, params: PageOfQueues, name: str, prefix: str, is_wanted: Callable[[Queue], bool] = lambda _: True
) -> Answer:
    try:
        after = urlsafe_b64decode(params.next_token.encode("ascii")).decode() if params.next_token else ""
    except ValueError:
        raise invalid("NextToken", params.next_token, "It is not one that was answered.") from None
    most = params.max_results or MOST_LISTED
    found = await call.queues.some(most + 1, after, prefix, is_wanted)
    page = found[:most]
    answer: Answer = {name: [call.url(queue) for queue in page]} if page else {}
    if params.max_results and len(found) > len(page):
        answer["NextToken"] = urlsafe_b64encode(page[-1].name.encode()).decode()
    return answer


async def delete_queue(call: Call, params: Params) -> Answer:
    await call.queues.delete((await call.queue(params)).name)
    return {}


async def purge_queue(call: Call, params: Params) -> Answer:
    await call.topic(await call.queue(params)).purge()
    return {}


async def get_queue_attributes(call: Call, params: AttributeNames) -> Answer:
    queue = await call.queue(params)
    names = params.attribute_names
    counts = {}
    if any(name == "All" or name.startswith("ApproximateNumber") for name in names):
        stats = await perform(call.topic(queue), server_verbs(call.topic(queue)).stats())
        counts = {
            "ApproximateNumberOfMessages": str(stats.ready),
            "ApproximateNumberOfMessagesNotVisible": str(stats.reserved),
            "ApproximateNumberOfMessagesDelayed": str(stats.delayed),
        }
    found = {**queue.shown(call.region), **counts}
    for name in names:
        if name != "All" and name not in KNOWN_ATTRIBUTES:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name[:80]}.")
    wanted = {name: value for name, value in found.items() if value and ("All" in names or name in names)}
    return {"Attributes": wanted} if wanted else {}


async def set_queue_attributes(call: Call, params: NewAttributes) -> Answer:
    given = checked_attributes(params.attributes)

    def change(queue: Queue) -> None:
        queue.attributes = {name: value for name, value in {**queue.attributes, **given}.items() if value}

    await call.queues.change((await call.queue(params)).name, change)
    return {}


async def tag_queue(call: Call, params: NewTags) -> Answer:
    if not params.tags:
        raise SqsError("MissingParameter", "The request must contain the parameter Tags.")

    def change(queue: Queue) -> None:
        queue.tags = checked_tags(queue.name, {**queue.tags, **params.tags})

    await call.queues.change((await call.queue(params)).name, change)
    return {}


async def untag_queue(call: Call, params: TagKeys) -> Answer:
    if not params.tag_keys:
        raise SqsError("InvalidParameterValue", "Tag keys must be between 1 and 128 characters in length.")

    def change(queue: Queue) -> None:
        queue.tags = {key: value for key, value in queue.tags.items() if key not in params.tag_keys}

    await call.queues.change((await call.queue(params)).name, change)
    return {}


async def list_queue_tags(call: Call, params: Params) -> Answer:
    tags = (await call.queue(params)).tags
    return {"Tags": tags} if tags else {}


# ── sending ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Outgoing:
    """A checked message: its job, its answer, its size."""

    job: NewJob[Body]
    answer: Answer
    size: int


def _outgoing(call: Call, queue: Queue, message: Message, index: int) -> Outgoing:
    text, attributes, others = message.message_body, message.message_attributes, dict[str, str]()
    messages.check_text(text)
    messages.check_attributes(attributes)
    size = messages.size_of(text, attributes)
    if size > (most := queue.number("MaximumMessageSize")):
        raise too_long("SendMessage", size, most)
    if message.message_deduplication_id is not None:
        told = "The request include parameter that is not valid for this queue type"
        raise invalid("MessageDeduplicationId", message.message_deduplication_id, told)
    if message.message_group_id is not None:
        others[messages.GROUP] = messages.check_group(message.message_group_id)
    answer: Answer = {"MD5OfMessageBody": messages.digest_of_body(text)}
    if attributes:
        answer["MD5OfMessageAttributes"] = messages.digest_of_attributes(attributes)
    if system := message.message_system_attributes:
        trace = system.get("AWSTraceHeader")
        if len(system) > 1 or trace is None or not trace.string_value or len(trace.string_value) > 1000:
            raise SqsError(
                "InvalidParameterValue", "The only message system attribute that can be sent is AWSTraceHeader."
            )
        messages.check_attributes({"AWSTraceHeader": trace} if trace.data_type != "String" else {})
        others[messages.TRACE] = trace.string_value
        answer["MD5OfMessageSystemAttributes"] = messages.digest_of_attributes(system)
    body, headers = messages.encoded(text, attributes, others)
    delay = queue.number("DelaySeconds") if message.delay_seconds is None else message.delay_seconds
    id = call.message_id(queue, index, message)
    answer["MessageId"] = id
    job = NewJob(body, id=id, delay=delay, headers=headers or None, key=message.message_group_id)
    return Outgoing(job, answer, size)


async def _grouped(call: Call, queue: Queue, jobs: Sequence[NewJob[Body]]) -> Sequence[NewJob[Body]]:
    """The jobs as the queue's topic takes them: without keys if it has partitions. The first key makes it fair, once: it can be switched off."""
    if all(job.key is None for job in jobs):
        return jobs
    topic = call.topic(queue)
    if len(await perform(topic, server_verbs(topic).partitions())) > 1:
        return [replace(job, key=None) for job in jobs]
    if not queue.is_fair:
        await topic.configure(fair=True)
        await call.queues.note_fair(queue)
    return jobs


async def _add(call: Call, queue: Queue, outgoing: Sequence[tuple[str, Outgoing]]) -> dict[str, TopicFull]:
    """Adds those that a full topic still has room for, in one script; returns why it has none for the others. Raises ``TopicFull`` if it has for none."""
    call.count(len(outgoing))
    topic, jobs = call.topic(queue), await _grouped(call, queue, [one.job for _, one in outgoing])
    options: dict[str, Any] = {"if_exists": "keep", "max_attempts": None}
    adding = [
        topic.add(job.body, id=job.id, delay=job.delay or 0, headers=job.headers, key=job.key, **options)
        for job in jobs
    ]
    told = await asyncio.gather(*adding, return_exceptions=True)
    refused = {id: fault for (id, _), fault in zip(outgoing, told, strict=True) if isinstance(fault, TopicFull)}
    for fault in told:
        if isinstance(fault, BaseException) and (len(refused) == len(told) or not isinstance(fault, TopicFull)):
            raise fault
    return refused


async def send_message(call: Call, params: Message) -> Answer:
    queue = await call.queue(params)
    outgoing = _outgoing(call, queue, params, 0)
    await _add(call, queue, [("", outgoing)])
    return outgoing.answer


async def send_message_batch(call: Call, params: Entries) -> Answer:
    queue = await call.queue(params)
    outgoing, failed, size = list[tuple[str, Outgoing]](), list[Answer](), 0
    for index, (id, given) in enumerate(_entries(params, "SendMessageBatchRequestEntry")):
        try:
            entry = call.parse(MessageEntry, given)
            size += messages.size_of(entry.message_body, entry.message_attributes)
            outgoing.append((id, _outgoing(call, queue, entry, index)))
        except SqsError as fault:
            failed.append(fault.entry(id))
    if size > MOST_BYTES:
        raise too_long("SendMessageBatch", size, MOST_BYTES)
    if outgoing:
        refused = await _add(call, queue, outgoing)
        failed += [fault_of(full).entry(id) for id, full in refused.items()]
        outgoing = [(id, one) for id, one in outgoing if id not in refused]
    return {"Successful": [{"Id": id, **one.answer} for id, one in outgoing], "Failed": failed}


def _entries(params: Entries, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """The entries of a batch with their ids. Raises ``SqsError`` for a batch that is refused as a whole."""
    entries = params.entries
    if not entries:
        raise SqsError("EmptyBatchRequest", f"There should be at least one {kind} in the request.")
    if len(entries) > MOST_ENTRIES:
        told = f"Maximum number of entries per request are {MOST_ENTRIES}. You have sent {len(entries)}."
        raise SqsError("TooManyEntriesInBatchRequest", told)
    found = dict[str, dict[str, Any]]()
    for entry in entries:
        id = entry.get("Id")
        try:
            checked = msgspec.convert(id, EntryId)
        except msgspec.ValidationError:
            told = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long."
            raise SqsError("InvalidBatchEntryId", told) from None
        if checked in found:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {checked} repeated.")
        found[checked] = entry
    return list(found.items())


# ── receiving ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def receive_message(call: Call, params: Receive) -> Answer:
    queue = await call.queue(params)
    call.count(params.max_number_of_messages)
    topic, timeout, wait = call.topic(queue), params.visibility_timeout, params.wait_time_seconds
    ttr = (queue.number("VisibilityTimeout") if timeout is None else timeout) or SHORTEST_TTR
    until = time.monotonic() + (queue.number("ReceiveMessageWaitTimeSeconds") if wait is None else wait)
    while True:
        left = max(until - time.monotonic(), 0)
        work = topic.pop_many(params.max_number_of_messages, wait=left, ttr=ttr)
        jobs = await call.request.pop_or_give_back(work, waits=bool(left))
        kept = await _redrive(call, queue, jobs)
        if kept or not jobs:
            break
    system = [*params.attribute_names, *params.message_system_attribute_names]
    names = params.message_attribute_names
    shown = [messages.shown(job, messages.handle_of(queue.name, job), system, names) for job in kept]
    return {"Messages": shown} if shown else {}


async def _redrive(call: Call, queue: Queue, jobs: Sequence[AsyncJob[Body]]) -> list[AsyncJob[Body]]:
    """Moves messages that were received too often to the dead-letter queue; returns the others.

    Each is added there first, and then finished here: one that is interrupted in between is moved again, under the same id.
    """
    redrive = queue.redrive
    over = [job for job in jobs if redrive is not None and job.attempt > redrive.most]
    target = await call.queues.find(redrive.name) if redrive is not None and over else None
    if redrive is None or target is None or target.name == queue.name:
        return list(jobs)
    source = queue.arn(redrive.arn.split(":")[3])
    await _add_moved(call.topic(target), await _grouped(call, target, [_moved(job, source) for job in over]))
    for job in over:
        await _finish(call.topic(queue), job)
    return [job for job in jobs if job not in over]


def _moved(job: AsyncJob[Body], source: str) -> NewJob[Body]:
    """A message as the dead-letter queue gets it. Its headers may have no room for the marks; then it gets an id of its own."""
    headers = messages.headers_of(job)
    sent = headers.get(messages.SENT) or str(int(job.created.timestamp() * 1000))
    marked = {**headers, messages.SENT: sent, messages.SOURCE: source}
    try:
        JobOptions(headers=marked).encode()
    except BadInput:
        return NewJob(job.body, id=_other_id(source, job.id, sent), headers=headers, key=job.key)
    return NewJob(job.body, id=job.id, headers=marked, key=job.key)


async def _add_moved(dead: AsyncTopic[Body], moved: Sequence[NewJob[Body]]) -> None:
    """Adds moved messages. Where another message of that id is there already, the moved one gets an id of its own."""
    options = JobOptions(if_exists="keep", max_attempts=None).encode()

    async def add(some: Sequence[NewJob[Body]]) -> list[Added]:
        """However many wait there: they are in the queue that they leave as long as they are not here."""
        return await perform(
            dead, server_verbs(dead).add_many_with(some, options, atomic=False, moves=True), registers=True
        )

    added = await add(moved)
    found = {one.id: new for new, one in zip(moved, added, strict=True) if not one.is_new}
    if not found:
        return
    there = {job.id: job for job in await perform(dead, server_verbs(dead).get(list(found))) if job is not None}
    others: list[NewJob[Body]] = []
    for id, new in found.items():
        headers = dict(new.headers or {})
        if messages.SENT in headers and (id not in there or messages.headers_of(there[id]) != headers):
            others.append(replace(new, id=_other_id(headers[messages.SOURCE], id, headers[messages.SENT])))
    if others:
        await add(others)


def _other_id(source: str, id: str, sent: str) -> str:
    """An id of this message alone, the same in each try."""
    made = sha256(f"{source}\0{id}\0{sent}".encode()).digest()
    return str(UUID(bytes=made[:16], version=4))


async def _finish(topic: AsyncTopic[Body], held: Any) -> None:
    """Finishes a job. A late receipt deletes it too, unless another receiver has the message by now."""
    try:
        await topic.finish(held)
    except StaleReceipt as fault:
        if fault.reason in _LATE:
            await topic.delete(held.id)
        elif fault.reason == "never":
            raise bad_handle() from None


async def delete_message(call: Call, params: Handle) -> Answer:
    queue = await call.queue(params)
    await _finish(call.topic(queue), messages.reservation_of(queue.name, params.receipt_handle))
    return {}


async def delete_message_batch(call: Call, params: Entries) -> Answer:
    queue = await call.queue(params)

    async def delete(given: Any) -> None:
        entry = call.parse(HandleEntry, given)
        await _finish(call.topic(queue), messages.reservation_of(queue.name, entry.receipt_handle))

    return await _each(params, "DeleteMessageBatchRequestEntry", delete)


async def change_message_visibility(call: Call, params: Visibility) -> Answer:
    await _change(call, await call.queue(params), params)
    return {}


async def change_message_visibility_batch(call: Call, params: Entries) -> Answer:
    queue = await call.queue(params)

    async def change(given: Any) -> None:
        await _change(call, queue, call.parse(VisibilityEntry, given))

    return await _each(params, "ChangeMessageVisibilityBatchRequestEntry", change)


async def _change(call: Call, queue: Queue, params: Visibility) -> None:
    """Sets how long a message stays invisible. The handle of an earlier receive will do while another receiver has it, as with AWS."""
    held, topic = messages.reservation_of(queue.name, params.receipt_handle), call.topic(queue)
    for _ in range(MOST_RECEIVES):
        try:
            if params.visibility_timeout:
                await topic.touch(held, ttr=params.visibility_timeout)
            else:
                await topic.release(held, delay=0)
            return
        except StaleReceipt as fault:
            if fault.reason == "gone":
                told = "Message does not exist or is not available for visibility timeout change."
                raise invalid("ReceiptHandle", params.receipt_handle, told) from None
            if fault.reason != "again":
                break
        job = await read_now(topic, held.id)
        if job is None or job.state != "reserved" or job.receipt is None:
            break
        held = replace(held, receipt=job.receipt)
    raise SqsError("MessageNotInflight", "The specified message isn't in flight.")


async def _each(params: Entries, kind: str, act: Callable[[Any], Awaitable[None]]) -> Answer:
    """Performs the entries of a batch at the same time; one that fails stops no other."""

    async def fault_in(given: Any) -> SqsError | None:
        try:
            await act(given)
        except (SqsError, BadInput) as raised:
            fault = fault_of(raised)
            is_of_handle = fault.name == "ReceiptHandleIsInvalid"
            return bad_handle_of_entry(str(given.get("ReceiptHandle"))) if is_of_handle else fault
        return None

    entries = _entries(params, kind)
    faults = await asyncio.gather(*[fault_in(given) for _, given in entries])
    found = [(id, fault) for (id, _), fault in zip(entries, faults, strict=True)]
    return {
        "Successful": [{"Id": id} for id, fault in found if fault is None],
        "Failed": [fault.entry(id) for id, fault in found if fault is not None],
    }


KNOWN_ATTRIBUTES = frozenset(
    {
        "Policy", "VisibilityTimeout", "MaximumMessageSize", "MessageRetentionPeriod", "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible", "CreatedTimestamp", "LastModifiedTimestamp", "QueueArn",
        "ApproximateNumberOfMessagesDelayed", "DelaySeconds", "ReceiveMessageWaitTimeSeconds", "RedrivePolicy", "FifoQueue",
        "ContentBasedDeduplication", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "DeduplicationScope",
        "FifoThroughputLimit", "RedriveAllowPolicy", "SqsManagedSseEnabled",
    }
)  # fmt: skip
"""Attributes that may be asked for."""
Operation = tuple[Callable[[Call, Any], Awaitable[Answer]], type[Params], frozenset[Scope]]
OPERATIONS: dict[str, Operation] = {
    "CreateQueue": (create_queue, NewQueue, ADMIN),
    "GetQueueUrl": (get_queue_url, QueueName, ANY_SCOPE),
    "ListQueues": (list_queues, PageOfQueues, ANY_SCOPE),
    "ListDeadLetterSourceQueues": (list_dead_letter_source_queues, PageOfQueues, ANY_SCOPE),
    "DeleteQueue": (delete_queue, Params, ADMIN),
    "PurgeQueue": (purge_queue, Params, ADMIN),
    "GetQueueAttributes": (get_queue_attributes, AttributeNames, ANY_SCOPE),
    "SetQueueAttributes": (set_queue_attributes, NewAttributes, ADMIN),
    "TagQueue": (tag_queue, NewTags, ADMIN),
    "UntagQueue": (untag_queue, TagKeys, ADMIN),
    "ListQueueTags": (list_queue_tags, Params, ANY_SCOPE),
    "SendMessage": (send_message, Message, PRODUCE),
    "SendMessageBatch": (send_message_batch, Entries, PRODUCE),
    "ReceiveMessage": (receive_message, Receive, CONSUME),
    "DeleteMessage": (delete_message, Handle, CONSUME),
    "DeleteMessageBatch": (delete_message_batch, Entries, CONSUME),
    "ChangeMessageVisibility": (change_message_visibility, Visibility, CONSUME),
    "ChangeMessageVisibilityBatch": (change_message_visibility_batch, Entries, CONSUME),
}
UNSUPPORTED = frozenset(
    {"AddPermission", "RemovePermission", "StartMessageMoveTask", "CancelMessageMoveTask", "ListMessageMoveTasks"}
)
