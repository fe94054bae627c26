"""What the tests of Celery share: one Redis for brokers, results and topics, one RabbitMQ, and a name for each test. Both have a
Python that has imported it, and Django."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rabbitmqs
import servers
import tarry
from tarry.connections.embedded.server_process import ServerProcess
from warm import warm_python

OF_DJANGO = (
    "django.core.management.commands.check django.core.management.commands.migrate django.core.serializers django.urls "
    "django.db.backends.sqlite3.base django.db.migrations.executor django.db.models django.forms django.http "
    "django.template.backends.django django.test.client django.views.defaults tarry.django.project tarry.worker.worker_process"
).split()
"""What a project imports, but for what reads its settings."""
OF_CELERY = (
    "celery.apps.worker celery.backends.redis celery.bin.celery celery.concurrency.prefork celery.concurrency.thread celery.worker.consumer "
    "kombu.transport.redis tarry.celery.relay_process tarry.programs.cli.app tarry.programs.cli.celery_command"
).split()
"""What a worker and a relay import, on a Redis."""


@pytest.fixture(scope="session")
def redis() -> Iterator[ServerProcess]:
    with servers.short_folder() as folder, servers.server(servers.redis7_binary(folder)) as running:
        yield running


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[rabbitmqs.RabbitMQ]:
    with rabbitmqs.server() as running:
        yield running


@pytest.fixture
def name() -> str:
    """The test's queue and namespace."""
    return f"shop-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(redis: ServerProcess, name: str) -> Iterator[tarry.Topic[Any]]:
    """Where the tasks wait."""
    with tarry.Client(redis.url, namespace=name) as client:
        yield client.topic("celery")


@pytest.fixture(scope="session")
def celery_python() -> Iterator[Path]:
    """A program like ``python``, which need not import Celery."""
    with servers.short_folder() as folder, warm_python(folder, *OF_CELERY) as command:
        yield command


@pytest.fixture(scope="session")
def django_python() -> Iterator[Path]:
    """A program like ``python``, which need not import Django."""
    with servers.short_folder() as folder, warm_python(folder, *OF_DJANGO) as command:
        yield command
