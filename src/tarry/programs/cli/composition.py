"""The programs that ``tarry serve`` puts together. They do not know each other: this is where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tarry import __version__
from tarry.errors import BadInput
from tarry.internal import NamespaceVerbs, check_name
from tarry.programs.cli.messages import renamed_parameters
from tarry.programs.dialects.mounts import DIALECTS
from tarry.programs.serving.mounts import Mount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tarry.programs.beanstalk.server import BeanstalkSettings
    from tarry.programs.dialects.mounts import Dialects
    from tarry.programs.service.app import ServiceApp
    from tarry.programs.service.settings import ServiceSettings

SQS = "sqs"
"""The dialect of Amazon SQS, whose URLs name the namespace."""


@dataclass(frozen=True, slots=True)
class Composition:
    """The programs that are served besides the API."""

    dialects: Dialects
    sqs: bool
    """Whether ``/sqs`` speaks the protocol of Amazon SQS, for the namespaces that are served."""
    dashboard: bool
    """Whether the dashboard is served at ``/``."""
    beanstalk: BeanstalkSettings | None
    """Where to listen for beanstalkd's clients."""

    def mounts(self, first_namespace: str) -> tuple[Mount, ...]:
        """The mounts of a service with this first namespace. Raises ``BadInput``."""
        found = [*self.dialects.mounts(first_namespace), Mount(advise=self._advise)]
        if self.sqs:
            from tarry.programs.sqs import routes as sqs  # not imported unless it is asked for

            found.append(Mount((sqs.routes_of(),)))
        if self.dashboard:
            from tarry.programs.dashboard.mount import DashboardMount

            found.append(Mount(open_pages=DashboardMount))
        return tuple(found)

    def banner(self, app: ServiceApp, shown: str, address: str, processes: int = 1) -> str:
        """The lines that a service prints when it starts."""
        several = f", {processes} processes" if processes > 1 else ""
        lines = [
            f"tarry {__version__}{several}, service at {address}",
            f"  server   {shown}, namespace {', '.join(app.settings.namespaces)}",
            f"  tokens   {_tokens_text(app.settings)}",
        ]
        for name, (_, kind, paths) in DIALECTS.items():
            if (place := self._place(name)) is not None:
                lines.append(f"  dialect  {name}: {' '.join(paths)}; stores in the {kind} {place}")
        if self.sqs:
            lines.append(f"  dialect  {SQS}: /sqs; stores in NAMESPACE of queue URLs, {address}/sqs/NAMESPACE/QUEUE")
        if app.moved_queues:
            lines.append(f"  moves    {', '.join(app.moved_queues)}")
        lines.append(f"  {address}/ is the dashboard" if self.dashboard else "  no dashboard")
        lines.append(f"  {address}/openapi.json  {address}/metrics; Ctrl-C or SIGTERM drains it")
        return "\n".join(lines)

    def _place(self, dialect: str) -> str | None:
        """Where a dialect stores; ``None`` if it is off."""
        place: str | None = getattr(self.dialects, dialect.replace("-", "_"))
        return place

    def _advise(self, path: str) -> str | None:
        """Names the option for a path of a dialect that is off."""
        off = SQS if not self.sqs and f"{path}/".startswith("/sqs/") else None
        for name, dialect in DIALECTS.items():
            if path in dialect.paths and self._place(name) is None:
                off = name
        return f"{path} is of the dialect {off}, which is off: start with --dialect {off}." if off else None


def dialects_of(given: Iterable[str]) -> dict[str, str]:
    """The dialects that ``--dialect NAME[=PLACE]`` names, and where each stores. Raises ``BadInput``."""
    places = dict[str, str]()
    for one in given:
        name, told, place = one.partition("=")
        if name not in DIALECTS and name != SQS:
            raise BadInput(f"dialect: {name!r} is unknown; choose from {', '.join((*DIALECTS, SQS))}.")
        if name in places:
            raise BadInput(f"dialect: {name} is given twice; start another service for the other place.")
        if name == SQS:
            if told:
                raise BadInput(
                    "dialect: sqs has no place, its queue URLs name the namespace; serve it with --other-namespace."
                )
        elif not told:
            place = DIALECTS[name].place
        elif DIALECTS[name].kind == "namespace":
            with renamed_parameters(namespace="dialect"):
                NamespaceVerbs(place)
        else:
            check_name(place, "dialect")
        places[name] = place
    return places


def _tokens_text(settings: ServiceSettings) -> str:
    if settings.tokens:
        return "required"
    return "not required until the first one is created" if settings.tokens_later else "not required"
