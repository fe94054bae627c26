"""The programs that ``tarry serve`` puts together. They do not know each other: this is where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tarry import __version__
from tarry.programs.service.mounts import Mount

if TYPE_CHECKING:
    from tarry.programs.beanstalk.server import BeanstalkSettings
    from tarry.programs.dialects.mounts import Dialects
    from tarry.programs.service.app import ServiceApp
    from tarry.programs.service.settings import ServiceSettings


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
        found = list(self.dialects.mounts(first_namespace))
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
        for path, where in (
            ("/delay/…", self.dialects.delay_controller),
            ("/push /pop …", self.dialects.delay_queue),
            ("/delayed/message", self.dialects.delayed_message),
        ):
            if where is not None:
                lines.append(f"  dialect  {path} in {where}")
        if self.sqs:
            lines.append(f"  dialect  /sqs: Amazon SQS, queue URLs {address}/sqs/NAMESPACE/QUEUE")
        if app.moved_queues:
            lines.append(f"  moves    {', '.join(app.moved_queues)}")
        lines.append(f"  {address}/ is the dashboard" if self.dashboard else "  no dashboard")
        lines.append(f"  {address}/openapi.json  {address}/metrics; Ctrl-C or SIGTERM drains it")
        return "\n".join(lines)


def _tokens_text(settings: ServiceSettings) -> str:
    if settings.tokens:
        return "required"
    return "not required until the first one is created" if settings.tokens_later else "not required"
