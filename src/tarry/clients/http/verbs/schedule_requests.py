"""The verbs of schedules as requests to a service: the names and options of ``ScheduleVerbs``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarry.clients.http.requests import HTTPRequest, request_to
from tarry.clients.http.verbs.request_fields import body_fields, optional_span
from tarry.clients.http.verbs.topic_requests import HTTPTopicVerbs
from tarry.errors import BadInput
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.schedule_info import Schedule, Timing, check_timing
from tarry.verbs.jobs.topic_context import TopicContext
from tarry.verbs.schedules.records import id_of
from tarry.wire.endpoints import schedule_endpoints as schedules
from tarry.wire.job_models import option_fields

UNKNOWN = "unknown_schedule"
_STATES = {"pause": schedules.PAUSE, "resume": schedules.RESUME, "delete": schedules.DELETE}


class HTTPScheduleVerbs:
    """Each returns a request or a flow. ``verbs`` gives the verbs of a topic by its name."""

    def __init__(self, verbs: Callable[[str], HTTPTopicVerbs[Any]]) -> None:
        self._verbs = verbs

    def verbs(self, topic: Any) -> HTTPTopicVerbs[Any]:
        """A topic's verbs: of the topic itself, or by its name."""
        found: Any = topic.verbs if hasattr(topic, "verbs") else self._verbs(topic)
        if not isinstance(found, HTTPTopicVerbs):
            raise BadInput(f"topic: {topic.name} is one of another client's; give its name.")
        return found

    def context(self, topic: Any) -> TopicContext[Any]:
        return self.verbs(topic).context

    def _codec_of(self, topic: str) -> BodyCodec[Any]:
        return self.context(topic).codec

    def put(self, topic: Any, id: str, body: Any, timing: Timing, options: JobOptions) -> HTTPRequest[Schedule]:
        verbs = self.verbs(topic)
        options.check()
        id_of(id)
        check_timing(timing)
        model = schedules.PutSchedule(
            every=optional_span(timing.every),
            cron=timing.cron,
            tz=timing.tz,
            first=timing.first,
            missed=timing.missed,
            **body_fields(verbs.context.codec, body),
            **option_fields(options),
        )
        return verbs.request(schedules.PUT, id, body=model, known=(verbs.context.codec,))

    def get(self, topic: Any, id: str) -> HTTPRequest[Schedule | None]:
        id_of(id)
        verbs = self.verbs(topic)
        found: HTTPRequest[Any] = verbs.request(schedules.GET, id, known=(verbs.context.codec,), absent=(UNKNOWN, None))
        return found

    def list(self, topic: Any) -> HTTPRequest[list[Schedule]]:
        if topic is None:
            return request_to(schedules.LIST_ALL, known=(self._codec_of,))
        verbs = self.verbs(topic)
        return verbs.request(schedules.LIST_OF_TOPIC, known=(verbs.codec_of,))

    def set_state(self, topic: Any, id: str, what: Any) -> HTTPRequest[bool]:
        id_of(id)
        verbs = self.verbs(topic)
        return verbs.request(_STATES[what], id, absent=(UNKNOWN, False)).then(lambda _: True)
