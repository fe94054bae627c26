"""Sentinel: the URL names the Sentinels and their master; a fail-over is nobody's business but the client's."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import quote

import pytest

import tarry
from server_groups import MASTER, sentinels
from until import LONGEST_S

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]


def test_master_and_sentinels_may_have_different_passwords() -> None:
    mine, theirs = "m@st/er", "w@tch:er"
    with sentinels() as own:
        for one in own.data:
            one.ask("CONFIG", "SET", "masterauth", mine)
            one.ask("CONFIG", "SET", "requirepass", mine)
        for one in own.watchers:
            one.ask("SENTINEL", "SET", MASTER, "auth-pass", mine)
            one.ask("ACL", "SETUSER", "looker", "on", f">{theirs}", "~*", "&*", "+@all")
        url = f"redis+sentinel://:{quote(mine, safe='')}@{own.hosts}/{MASTER}"
        url += "?sentinel_username=looker&sentinel_password="
        with tarry.Client(url + quote(theirs, safe="")) as client:
            assert client.topic("orders").add("tea").id
        with tarry.Client(url + "wrong") as client, pytest.raises(tarry.ServerUnfit, match="Sentinels refused"):
            client.topics()


def test_a_master_killed_under_load_loses_no_replicated_job() -> None:
    """Jobs that were acknowledged by the replica survive. A waiting pop goes on waiting, and gets a job."""
    with sentinels() as own, tarry.Client(own.url, patience="60s") as client:
        topic = client.topic("orders")
        before = [topic.add(i, delay="1h", durability="replicated").id for i in range(50)]
        taken: list[object] = []

        async def wait_for_one() -> None:
            async with tarry.AsyncClient(own.url, patience="60s") as waiting:
                job = await waiting.pop("orders", wait=60)
                assert job is not None
                async with job:
                    taken.append(job.body)

        def wait_in_a_thread() -> None:
            job = client.pop("orders", wait=60)
            assert job is not None
            with job:
                taken.append(job.body)

        threads = [
            threading.Thread(target=wait_in_a_thread),
            threading.Thread(target=lambda: asyncio.run(wait_for_one())),
        ]
        for thread in threads:
            thread.start()
        own.master().kill()
        during = [topic.add(i, delay="1h").id for i in range(50, 70)]
        topic.add_many(["now", "now"])
        for thread in threads:
            thread.join(LONGEST_S)
        assert taken == ["now", "now"]
        assert {job.id for job in topic.list()} == {*before, *during}
