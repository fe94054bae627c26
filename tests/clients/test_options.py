"""Every way to add a job has every option of ``add``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click
import msgspec
import pytest
import typer

import tarry
from doc_pages import ROOT
from tarry.programs.cli import batch
from tarry.programs.cli.app import app
from tarry.verbs.jobs import records
from tarry.verbs.jobs.job_fields import NO_NONCE
from tarry.verbs.jobs.options import DEFAULT_OPTIONS, JobOptions
from tarry.wire import job_models as models
from tarry.wire.endpoints import schedule_endpoints as schedules
from tarry.wire.job_models import given_options, option_fields
from tools.option_table import OPTIONS as OPTION_TABLE
from walked import cases

OPTIONS = set(JobOptions.__struct_fields__)
OF_THE_CALL = {"if_exists", "latest", "durability"}
"""Options of a call, which the jobs of one call cannot have apart."""
OF_TIME = {"delay", "at"}
"""A schedule has its own times, and ids."""
FLAGS = {"headers": "header"}
"""Options with another name on the command line."""


def parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def columns(model: type[Any]) -> set[str]:
    return {one.name for one in msgspec.structs.fields(model)}


def flags(*words: str) -> set[str]:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.get_command(click.Context(command), word)
    return {one.name for one in command.params}


JOB = OPTIONS | {"id"}
JOBS = OPTIONS
ONE_OF_MANY = (OPTIONS | {"id"}) - OF_THE_CALL
SCHEDULE = OPTIONS - OF_THE_CALL - OF_TIME
WAYS: dict[str, tuple[set[str], Callable[[], set[str]]]] = {
    "Topic.add": (JOB, lambda: parameters(tarry.Topic.add)),
    "AsyncTopic.add": (JOB, lambda: parameters(tarry.AsyncTopic.add)),
    "Topic.add_many": (JOBS, lambda: parameters(tarry.Topic.add_many)),
    "AsyncTopic.add_many": (JOBS, lambda: parameters(tarry.AsyncTopic.add_many)),
    "NewJob": (ONE_OF_MANY, lambda: {one.name for one in fields(tarry.NewJob)}),
    "Task.options": (JOB, lambda: parameters(tarry.Task.options)),
    "HTTP, one job": (JOB, lambda: columns(models.Add)),
    "HTTP, many jobs": (JOBS, lambda: columns(models.AddMany)),
    "HTTP, a job of many": (ONE_OF_MANY, lambda: columns(models.OneOfMany)),
    "HTTP, the query": (JOB - {"headers"}, lambda: columns(models.AddQuery)),  # the request has headers of its own
    "tarry add": ({FLAGS.get(name, name) for name in JOB}, lambda: flags("add")),
    "tarry add --file": (ONE_OF_MANY, lambda: columns(batch.LINE)),
    "Schedules.put": (SCHEDULE, lambda: parameters(tarry.Schedules.put)),
    "AsyncSchedules.put": (SCHEDULE, lambda: parameters(tarry.AsyncSchedules.put)),
    "@worker.every": (SCHEDULE, lambda: parameters(tarry.Registry.every)),
    "@worker.cron": (SCHEDULE, lambda: parameters(tarry.Registry.cron)),
    "HTTP, a schedule": (SCHEDULE, lambda: columns(schedules.PutSchedule)),
    "tarry schedule put": ({FLAGS.get(name, name) for name in SCHEDULE}, lambda: flags("schedule", "put")),
}


@cases("way", WAYS)
def test_every_way_to_add_jobs_has_every_option(way: str) -> None:
    wanted, found = WAYS[way]
    assert wanted - found() == set()


@pytest.mark.parametrize(
    "way", ["Topic.add", "AsyncTopic.add", "Topic.add_many", "AsyncTopic.add_many", "Task.options"]
)
def test_an_option_has_the_same_default_everywhere(way: str) -> None:
    function = {
        "Topic.add": tarry.Topic.add,
        "AsyncTopic.add": tarry.AsyncTopic.add,
        "Topic.add_many": tarry.Topic.add_many,
        "AsyncTopic.add_many": tarry.AsyncTopic.add_many,
        "Task.options": tarry.Task.options,
    }[way]
    defaults = {name: one.default for name, one in inspect.signature(function).parameters.items() if name in OPTIONS}
    assert defaults == msgspec.structs.asdict(DEFAULT_OPTIONS)


GIVEN = JobOptions(
    delay="5m",
    if_exists="replace",
    latest="1h",
    ttr=1.5,
    max_attempts=None,
    headers={"k": "v"},
    max_lateness="1h",
    priority=2,
    key="blau",
    durability="replicated",
)


def test_a_job_is_stored_with_the_options_that_were_given() -> None:
    """So one that is added again, from the dashboard or by a schedule's button, has all of them."""
    encoded = GIVEN.encode()
    again = JobOptions.of(records.unpack_head(bytes(7) + encoded.head(0, NO_NONCE) + b"7"))
    assert again.encode().contents == encoded.contents
    kept = {one.name for one in OPTION_TABLE if one.stored}
    assert {name for name in OPTIONS if getattr(again, name) != getattr(DEFAULT_OPTIONS, name)} == kept


def test_a_request_contains_only_the_given_options() -> None:
    assert option_fields(DEFAULT_OPTIONS) == {}
    assert option_fields(tarry.NewJob(7, id="7")) == {}
    assert option_fields(tarry.NewJob(7, delay=0, max_attempts=None)) == {"delay": "0us", "max_attempts": None}
    sent = models.Add(**option_fields(GIVEN))
    received = given_options(msgspec.json.decode(msgspec.json.encode(sent), type=models.Add))
    assert JobOptions(**received).encode() == GIVEN.encode()
    assert received.keys() == OPTIONS - {"at"}
    assert received["durability"] == "replicated"


@pytest.mark.parametrize("option", ["if_exists", "durability"])
def test_few_files_name_an_option(option: str) -> None:
    """These two are options of ``add`` alone; the others are also options of a topic, a handler or a guarded queue. A dialect, or
    Celery's relay, uses an option as an application does, and does not have to know all of them."""
    leaves = ("celery", "dialects")
    files = [
        file
        for file in (ROOT / "src").rglob("*.py")
        if option in file.read_text(encoding="utf-8") and not set(leaves) & set(file.parts)
    ]
    assert len(files) <= 14, sorted(map(str, files))
