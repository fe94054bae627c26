"""The members that users see of the classes with an inside: whoever adds one without an underscore promises it."""

from __future__ import annotations

import tarry
from walked import cases

DECORATORS = "cron every on on_queue task"
STORED = "body created headers id key priority raw topic"
MEMBERS: dict[type, str] = {
    tarry.Registry: f"{DECORATORS} around include stamp",
    tarry.Worker: f"{DECORATORS} around include stamp async_client client close keep_moving run run_until_idle stop using",
    tarry.Task: "add add_async body cancel cancel_async get get_async new_job options reschedule reschedule_async result result_async "
    "topic_name",
    tarry.types.BaseJob: f"{STORED} attempt due lateness lost receipt step steps ttr",
    tarry.Job: f"{STORED} attempt due lateness lost receipt steps ttr bury finish release step touch",
    tarry.AsyncJob: f"{STORED} attempt due lateness lost receipt steps ttr bury finish release step touch",
    tarry.JobInfo: f"{STORED} attempts died due effective_max_attempts error failed_attempts failure finished first_failure holder kept_until "
    "max_attempts note reason receipt reserved_until result result_not_kept retrying state steps ttr",
    tarry.BackOff: "factor first jitter longest",
    tarry.NewJob: "at body delay headers id key max_attempts max_lateness priority ttr",
}


@cases("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_a_class_has_the_members_that_users_need(kind: type) -> None:
    """The words of other libraries raise ``AttributeError``."""
    seen = {name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}
    assert seen == set(MEMBERS[kind].split())
