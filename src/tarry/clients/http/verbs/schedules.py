"""The verbs of schedules as requests to a service: the names and options of ``ScheduleVerbs``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarry.clients.http.requests import HTTPRequest
from tarry.clients.http.verbs.fields import body_fields, optional_span, read_done, segment
from tarry.clients.http.verbs.topics import HTTPTopicVerbs
from tarry.clients.http.wire import schedule_answers, schedule_models
from tarry.clients.http.wire.job_options import option_fields
from tarry.clients.schedule_verbs import Schedule, Timing, check_timing
from tarry.errors import BadInput
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs.context import TopicContext
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.schedules.records import id_of, new_id_of

UNKNOWN = "unknown_schedule"


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
        options.encode()
        new_id_of(id)
        check_timing(timing)
        model = schedule_models.PutSchedule(
            every=optional_span(timing.every),
            cron=timing.cron,
            tz=timing.tz,
            first=timing.first,
            missed=timing.missed,
            **body_fields(verbs.context.codec, body),
            **option_fields(options),
        )
        return verbs.request("PUT", _path(id), schedule_answers.SCHEDULE.decoder(verbs.context.codec), model)

    def get(self, topic: Any, id: str) -> HTTPRequest[Schedule | None]:
        id_of(id)
        verbs = self.verbs(topic)
        read: Callable[[bytes], Schedule | None] = schedule_answers.SCHEDULE.decoder(verbs.context.codec)
        return verbs.request("GET", _path(id), read, absent=(UNKNOWN, None))

    def list(self, topic: Any) -> HTTPRequest[list[Schedule]]:
        if topic is None:
            return HTTPRequest("GET", "/v1/schedules", schedule_answers.SCHEDULES.decoder(self._codec_of))
        verbs = self.verbs(topic)
        return verbs.request("GET", "/schedules", schedule_answers.SCHEDULES.decoder(verbs.codec_of))

    def set_state(self, topic: Any, id: str, what: Any) -> HTTPRequest[bool]:
        id_of(id)
        verbs = self.verbs(topic)
        method, path = ("DELETE", _path(id)) if what == "delete" else ("POST", f"{_path(id)}/{what}")
        return verbs.request(method, path, read_done, absent=(UNKNOWN, False))


def _path(id: str) -> str:
    return f"/schedules/{segment(id)}"
