"""What is Redisson's has Redisson's names in every namespace, and every place that users read says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.programs.cli.map_commands import MAPS
from tarry.programs.cli.queue_commands import QUEUES
from walked import cases

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
SAID = "the same in every namespace"


def test_queues_and_maps_of_java_are_the_same_in_every_namespace(valkey_url: str, name: str) -> None:
    with tarry.Client(valkey_url, namespace="shop") as shop, tarry.Client(valkey_url, namespace="bank") as bank:
        shop.delayed_queue(name, codec="string", format="4.7").offer("later", "1h")
        shop.blocking_queue(name, codec="string").put("tea")
        shop.map_cache(name + "-map", codec="string", policy=None).put("tea", "4.20")
        assert bank.delayed_queue(name, codec="string").size() == 1
        assert bank.blocking_queue(name, codec="string").poll() == "tea"
        assert bank.map_cache(name + "-map", codec="string", policy=None).get("tea") == "4.20"


@cases("client", [tarry.Client, tarry.AsyncClient])
@cases("method", ["delayed_queue", "blocking_queue", "map_cache", "lock", "guarded_queue"])
def test_the_docstring_says_so(client: Any, method: str) -> None:
    assert SAID in " ".join(getattr(client, method).__doc__.split())


@pytest.mark.parametrize("page", ["share-a-queue-with-java", "share-a-map-with-java", "guard-with-locks"])
def test_the_page_says_so(page: str) -> None:
    assert SAID in " ".join((DOCS / f"{page}.md").read_text("utf-8").split())


@pytest.mark.parametrize("group", [QUEUES, MAPS])
def test_the_help_says_so(group: Any) -> None:
    assert SAID in group.info.help
