"""Mistyped commands are refused in the terms of the command line, without anything of Python."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
import typer.main

import tarry
from tarry.programs.cli import guarded_commands, job_commands, topic_commands
from tarry.programs.cli.app import app
from tarry.programs.cli.commands import OF_EXTRAS
from tarry.programs.cli.messages import with_option_names
from tarry.programs.cli.other_commands import COMMANDS
from walked import cases
from warm import WarmTarry

REFUSED = Path(__file__).parent / "cli_calls.py"
OF_PYTHON = re.compile(
    r"\b[a-z]+=(?!value)|\bNone\b|\b[a-z]+_[a-z_]+\b|\w\(\)|datetime|timedelta|ZoneInfo|Traceback|Errno|<class|type="
)
REFUSALS = [
    ("worker-mode ada sleep", "MODE: 'sleep' is unknown; it is work, quiet or stop."),
    ("add orders", "BODY: give a body, or --file"),
    ("add orders nonsense", "BODY: Expecting value"),
    ("add orders NaN", "BODY: JSON has no NaN"),
    (f"add orders {'[' * 100_000}", "BODY: it is nested too deeply."),
    (r"""add orders '"\ud800"'""", "BODY: it contains half of a surrogate pair"),
    ("add orders 1 --file jobs", "BODY: give a body, or --file"),
    ("add orders --file /nowhere/jobs", "--file: '/nowhere/jobs': No such file or directory."),
    ("add orders --file - --id 7", "--id: with --file each line has its own"),
    ("add orders 1 --limit 3", "--dry-run, --limit: use them with --file."),
    ("add '' 1", "TOPIC: it is empty"),
    ("add 'a{b' 1", "TOPIC: 'a{b' contains a control character"),
    ("add orders 1 --id ' 7'", "--id: ' 7' begins or ends with a blank"),
    ("add taken 1 --id 7", "give another id, or --if-exists keep, once, replace or update."),
    ("add orders 1 --id 7 --if-exists maybe", "--if-exists: 'maybe' is unknown; it is"),
    ("add orders 1 --delay soon", "--delay: 'soon' is not a duration; write seconds, or such as"),
    ("add orders 1 --delay -5", "--delay: -5s is negative"),
    ("add orders 1 --delay 0 --at 2100-01-01T00:00:00Z", "--delay and --at: give one of the two."),
    ("add orders 1 --delay 9999w --at 2100-01-01T00:00:00Z", "--delay and --at: give one of the two."),
    ("add orders 1 --delay 999999999999", "--delay: '999999999999' reaches beyond the year 9999."),
    ("add orders 1 --at noon", "--at: 'noon' is not a moment; write 2026-02-03T04:05:06Z"),
    ("add orders 1 --at 2100-01-01T00:00", "--at: '2100-01-01T00:00' has no time zone; write"),
    ("add orders 1 --at 1960-01-01T00:00Z", "--at: 1960-01-01T00:00:00+00:00 is before 1970."),
    ("add orders 1 --ttr 60d", "--ttr: longer than 49 days"),
    ("add orders 1 --ttr never", "--ttr: 'never' is not a duration"),
    (
        "add orders 1 --max-attempts 0",
        "--max-attempts: 0; it is a whole number from 1 to 999,999, or none for no limit.",
    ),
    (
        "add orders 1 --key ''",
        "--key: ''; it is text of 1 to 200 bytes of UTF-8 without NUL, such as the name of a customer.",
    ),
    ("stats --key c7", "--key: name its topic, too: tarry stats TOPIC --key KEY."),
    ("stats orders --key ''", "--key: ''; it is text of 1 to 200 bytes"),
    ("keys nowhere", "nowhere"),
    (
        "purge orders --key c7 --state dead --yes",
        "--state: 'dead'; of a key only delayed, ready and reserved jobs are found.",
    ),
    ("purge orders --key c7", "--yes: it deletes jobs"),
    ("pause orders --key ''", "--key: ''; it is text of 1 to 200 bytes"),
    ("configure orders --key-concurrency 0", "--key-concurrency: 0; it is a whole number from 1 to 1,000,000, or none"),
    ("configure orders --key-rate often", "--key-rate: 'often'; write"),
    (
        "configure orders --key-rate 0",
        "--key-rate: 0 jobs; it is a whole number from 1 to 1,000,000. To hand out nothing, pause the key.",
    ),
    ("add orders 1 --priority 4", "--priority: 4; it is a whole number from 0 (the default) to 3, higher first."),
    ("add orders 1 --max-attempts many", "--max-attempts: 'many'; give a number, or none."),
    ("add orders 1 --header x", "--header: 'x'; write name=value."),
    (f"add orders 1 --header a={'x' * 9000}", "--header: 9"),
    ("add orders 1 --durability loud", "--durability: 'loud'; it is"),
    ("add orders 1 --partitions 0", "--partitions: 0; it is a whole number from 1 to"),
    ("add taken 1 --partitions 4", "--partitions: taken is a plain topic"),
    ("result orders 7 --wait soon", "--wait: 'soon' is not a duration"),
    ("pop orders --wait soon", "--wait: 'soon' is not a duration"),
    ("pop orders --ttr soon", "--ttr: 'soon' is not a duration"),
    ("pop ''", "TOPIC: it is empty"),
    ("finish orders 7 0", "RECEIPT: 0; "),
    ("finish taken 7 5", "Job 7 waits, and was not handed out since it was added or replaced"),
    ("touch orders 7 5 --ttr soon", "--ttr: 'soon' is not a duration"),
    ("release orders 7 5 --delay soon", "--delay: 'soon' is not a duration"),
    ("bury orders '' 5", "ID: it is empty"),
    ("delete orders", "Missing argument 'ID...'"),
    ("delete orders ''", "ID: it is empty"),
    ("delete orders 7 --state dead", "No such option: --state; tarry's is: tarry purge TOPIC --state dead"),
    ("delete orders 7 --limit 1", "No such option: --limit; tarry's is: tarry purge TOPIC --state dead"),
    ("delete orders 7 --dry-run", "No such option: --dry-run; tarry's is: tarry purge TOPIC --state dead"),
    ("delete orders 7 --yes", "No such option: --yes"),
    ("kick 7", "ID: '7' is read as the topic, and none follow; give ids, or --all for all dead jobs."),
    (
        "reschedule 7 --delay 0",
        "ID: '7' is read as the topic, and none follow; give ids, or --state for all jobs in a state.",
    ),
    ("kick orders 7 --all", "ID: give ids, or --all for all dead jobs."),
    ("add orders 1 --expires 5m", "No such option: --expires; tarry's is: --max-lateness"),
    ("kick orders --state dead", "No such option: --state; tarry's is: --all, for all dead jobs"),
    ("dead orders --kick", "--kick: give --group, --task, --error or --text; all dead jobs: tarry kick orders --all"),
    (
        "dead orders --delete --yes",
        "--delete: give --group, --task, --error or --text; all dead jobs: tarry purge orders --state dead",
    ),
    (
        "purge orders --state dead --running",
        "--running, --state: only reserved jobs run; give --state reserved, or no state.",
    ),
    ("reschedule orders 7 --state delayed --delay 1", "ID: give ids, or --state for all jobs in a state."),
    ("reschedule orders --state gone --delay 1", "--state: 'gone' is unknown; it is one of"),
    ("reschedule orders --state dead --delay 1", "--state: dead jobs do not wait and have no due time; `tarry kick"),
    ("reschedule orders --state reserved --delay 1", "--state: reserved jobs run and have no due time; `tarry release"),
    (
        "reschedule orders --state finished --delay 1",
        "--state: finished jobs are history, and only shown; `tarry purge",
    ),
    ("dead orders --kick --delete", "dead: give one of --jobs, --kick and --delete."),
    ("reschedule orders 7", "reschedule: give --delay or --at."),
    ("reschedule orders 7 --delay 1 --at 2100-01-01T00:00Z", "--delay and --at: give one of the two."),
    ("release-holder orders ''", "HOLDER: ''; it is a name of 1 to"),
    ("get orders ''", "ID: it is empty"),
    ("list orders --state gone", "--state: 'gone' is unknown"),
    ("list orders --due-after noon", "--due-after: 'noon' is not a moment"),
    ("list orders --due-before 2100-01-01", "--due-before: '2100-01-01' has no time zone"),
    (
        "list orders --state dead --due-after 2100-01-01T00:00Z",
        "--due-after, --due-before: reserved, dead and finished jobs",
    ),
    ("stats ''", "TOPIC: it is empty"),
    ("check ''", "TOPIC: it is empty"),
    ("purge orders --state gone", "--state: 'gone' is unknown"),
    ("purge orders --state gone --dry-run", "--state: 'gone' is unknown"),
    ("pause orders --duration soon", "--duration: 'soon' is not a duration"),
    ("resume ''", "TOPIC: it is empty"),
    ("configure orders --rate fast", "--rate: 'fast'; write "),
    ("configure orders --rate 0/s", "--rate: 0 jobs; it is a whole number"),
    ("configure orders --burst lots", "--burst: 'lots'; it is a whole number"),
    ("configure orders --concurrency 0", "--concurrency: 0; it is a whole number"),
    ("configure orders --max-lateness soon", "--max-lateness: 'soon' is not a duration"),
    ("histogram ''", "TOPIC: it is empty"),
    ("histogram orders --start noon", "--start: 'noon' is not a duration"),
    ("histogram orders --start 2100-01-01", "--start: '2100-01-01' has no time zone"),
    ("histogram orders --past soon", "--past: 'soon' is not a duration"),
    ("histogram orders --span 0", "--span: '0' is too short"),
    ("throughput ''", "TOPIC: it is empty"),
    ("throughput orders --span 8d", "--span: '8d'; the last week is kept"),
    ("histogram orders --buckets 0", "--buckets: 0; it is a whole number from 1 to 1000"),
    ("top '' --once", "TOPIC: it is empty"),
    ("schedule put orders daily", "schedule: give --every or --cron, one of the two."),
    ("schedule put orders daily --every 1h --cron '0 9 * * *'", "schedule: give --every or --cron, one of the two."),
    ("schedule put orders daily --every soon", "--every: 'soon' is not a duration"),
    ("schedule put orders daily --every 0", "--every: '0' is too short"),
    ("schedule put orders daily 1 --cron @daily", "--cron: '@daily' is not taken; write \"0 0 * * *\""),
    ("list orders --state failed", "--state: 'failed' is unknown; tarry calls it dead; it is one of ready, delayed,"),
    ("purge orders --yes --state scheduled", "--state: 'scheduled' is unknown; tarry calls it delayed;"),
    ("schedule put orders daily --cron 'at nine'", "--cron: 'at nine': "),
    ("schedule put orders daily --cron '0 9 30 2 *'", "--cron: "),
    ("schedule put orders daily --cron '0 9 * * *' --tz Atlantis", "--tz: 'Atlantis' is no time zone"),
    (
        "schedule put orders daily --cron '0 9 * * *' --first 2100-01-01T00:00Z",
        "--first: for --every; a cron expression says itself when it begins.",
    ),
    ("schedule put orders daily --every 1h --first noon", "--first: 'noon' is not a moment"),
    ("schedule put orders daily --every 1h --missed some", "--missed: 'some' is unknown"),
    ("schedule put orders daily --every 1h --max-lateness soon", "--max-lateness: 'soon' is not a duration"),
    ("schedule put orders 'a day' --every 1h", "ID: 'a day' contains a blank"),
    ("schedule list ''", "TOPIC: it is empty"),
    ("schedule get '' daily", "TOPIC: it is empty"),
    ("schedule pause orders ''", ""),
    ("schedule pause orders", "Missing argument 'ID'"),
    ("schedule resume orders none", "orders has no schedule none"),
    ("schedule delete orders none", "orders has no schedule none"),
    ("migrate orders", "--to: give --to (another name), --to-namespace or --to-url (another server)."),
    ("migrate nowhere --to orders", "TOPIC: there is no topic nowhere"),
    ("migrate taken --to taken", "migrate: a topic cannot move into itself."),
    ("migrate taken --to 'a{b'", "--to: 'a{b' contains a control character"),
    ("migrate taken --to-url nonsense", "--to-url: 'nonsense' has no scheme"),
    ("migrate taken --to-namespace a/b", "--to-namespace: 'a/b' contains a '/'"),
    ("delayed-queue offer '' 1", "QUEUE: ''; its name is a text that is not empty."),
    ("delayed-queue offer q 1 --codec avro", "--codec: 'avro' is unknown; it is one of"),
    ("delayed-queue offer q 1 --format x", "--format: 'x'; it is one of"),
    ("delayed-queue offer q 1 --delay soon", "--delay: 'soon' is not a duration"),
    ("delayed-queue offer q null", "VALUE: "),
    ("delayed-queue offer q tea --codec long --raw", "VALUE: "),
    ("delayed-queue list q --codec avro", "--codec: 'avro' is unknown"),
    ("delayed-queue stats ''", "QUEUE: ''; its name"),
    ("delayed-queue format q x", "FORMAT: 'x'; it is one of"),
    ("delayed-queue move ''", "QUEUE: ''; its name"),
    ("delayed-queue migrate q ''", "TOPIC: it is empty"),
    ("map-cache put m k 1 --ttl soon", "--ttl: 'soon' is not a duration"),
    ("map-cache put m k 1 --max-idle soon", "--max-idle: 'soon' is not a duration"),
    (
        "map-cache put m k 1 --ttl 1m --keep-ttl",
        "--keep-ttl: it keeps the entry's deadlines; give --ttl and --max-idle, or --keep-ttl.",
    ),
    (
        "map-cache put m k 1 --max-idle 1m --backend native",
        "--max-idle: not available with --backend native or redisson-native",
    ),
    ("map-cache put m k null", "VALUE: it is none; "),
    ("map-cache put m k 1 --backend sql", "--backend: 'sql'; it is redisson, redisson-native or native."),
    ("map-cache put m k 1 --key-codec avro", "--key-codec: 'avro' is unknown"),
    ("map-cache put m k 1 --json-key", "KEY: Expecting value"),
    ("map-cache get '' k", "MAP: ''; its name"),
    ("map-cache delete m k --codec avro", "--codec: 'avro' is unknown"),
    ("map-cache list m --codec avro", "--codec: 'avro' is unknown"),
    ("map-cache stats ''", "MAP: ''; its name"),
    ("map-cache evict ''", "MAP: ''; its name"),
    ("map-cache clear ''", "MAP: ''; its name"),
    ("lock list --zookeeper ''", "--zookeeper: ''; write host:port,host:port."),
    ("lock get ''", "LOCK: it is empty; give 1 to 200 bytes of text."),
    ("lock get '' --shared", "LOCK: ''; its name"),
    ("lock get a-list --shared", "LOCK: 'a-list' is no lock; something else has this name."),
    ("lock force-release a-list --shared", "LOCK: 'a-list' is no lock; something else has this name."),
    ("guarded-queue push q 1 --delay soon", "--delay: 'soon' is not a duration"),
    ("guarded-queue push q 1 --layout mine", "--layout: 'mine'; it is one of"),
    ("guarded-queue poll q --guard ''", "--guard: it is empty; give 1 to 200 bytes of text."),
    ("guarded-queue poll q --guard '' --shared", "--guard: ''; its name"),
    ("guarded-queue push q null", "push: the value is none; leave the item out."),
    ("guarded-queue poll q --wait soon", "--wait: 'soon' is not a duration"),
    ("guarded-queue stats ''", "QUEUE: it is empty"),
    ("guarded-queue clear ''", "QUEUE: it is empty"),
    ("serve --root-path tarry", "--root-path: 'tarry'; write a path such as /tarry"),
    ("serve --root-path /a//b", "--root-path: '/a//b'; write a path such as /tarry"),
    (
        "serve --allow-host http://jobs.example",
        "--allow-host: 'http://jobs.example'; write a name such as jobs.example",
    ),
    ("serve --allow-host jobs.example:7070", "--allow-host: 'jobs.example:7070'; write a name such as jobs.example"),
    ("serve --allow-origin *", "--allow-origin: '*'; write an origin such as https://app.example"),
    ("serve --allow-origin https://app.example/x", "--allow-origin: 'https://app.example/x'; write an origin"),
    ("serve --drain soon", "--drain: 'soon' is not a duration"),
    ("serve --other-namespace a/b", "--other-namespace: 'a/b' contains a '/'"),
    ("token create --scope all", "--scope: all; a token has some of"),
    ("token create --scope view --calls 0", "--calls: 0 a second; give a number above 0"),
    (f"token create --scope view --note {'x' * 300}", "--note: 300 characters"),
    ("token revoke nobody", "ID: no token nobody in the namespace"),
    ("configure orders --max-attempts many", "--max-attempts: 'many'"),
    ("configure orders --keep-dead 1ms", "--keep-dead: "),
    ("configure orders --keep 1d", "No such option: --keep; tarry's is: --keep-dead"),
    ("limit orders", "No such command 'limit'; tarry's is: tarry configure TOPIC"),
    (
        "move-to-topic old orders",
        "No such command 'move-to-topic'; tarry's is: tarry delayed-queue migrate QUEUE TOPIC",
    ),
    ("purge orders", "--yes: it deletes jobs, and there is no terminal to ask"),
    ("token list --namespace a/b", "--namespace: 'a/b' contains a '/'"),
    ("worker nowhere:app", ""),
    ("worker os:path", ""),
    ("stats --url nonsense", "--url: 'nonsense' has no scheme"),
    ("stats --url redis://x/name", "--url: the database after the host is a number"),
    ("cancel orders 7", "No such command 'cancel'; tarry's is: tarry delete TOPIC ID"),
    ("retry orders 7", "No such command 'retry'; tarry's is: tarry kick TOPIC ID"),
    ("topics orders", "(orders)"),
    ("queues", "No such command 'queues'; tarry's is: tarry topics"),
    ("schedule show orders daily", "No such command 'show'; tarry's is: tarry schedule get TOPIC ID"),
    ("delayed-queue size q", "No such command 'size'; tarry's is: tarry delayed-queue stats QUEUE"),
    ("map-cache size m", "No such command 'size'; tarry's is: tarry map-cache stats MAP"),
    ("map-cache remove m k", "No such command 'remove'; tarry's is: tarry map-cache delete MAP KEY"),
    ("lock show tea", "No such command 'show'; tarry's is: tarry lock get LOCK"),
    ("delayed-queue move q --keep", "No such option: --keep; tarry's is: --keep-moving"),
    ("pop orders -n 2", "No such option: -n; tarry's is: --limit"),
    ("pause orders --for 1h", "No such option: --for; tarry's is: --duration"),
    ("guarded-queue poll q --count 2", "No such option: --count; tarry's is: --limit"),
    ("serve --also shop", "No such option: --also; tarry's is: --other-namespace"),
    ("serve --queue q", "No such option: --queue; tarry's is: --delayed-queue"),
    ("serve --max-request 9999", "No such option: --max-request; tarry's is: --max-request-body"),
    ("doctor --also shop", "No such option: --also; tarry's is: --other-namespace"),
    ("doctor --most-jobs 1", "No such option: --most-jobs; tarry's is: --max-jobs"),
    ("doctor --most-mb 1", "No such option: --most-mb; tarry's is: --max-mb"),
    ("stats --patience soon", "--patience: 'soon' is not a duration"),
    ("--patience soon stats", "--patience: 'soon' is not a duration"),
]
NOTHING_TO_REFUSE = {"workers", "demo", "demo-worker"}


@pytest.fixture(scope="module")
def call_tarry(valkey_url: str, tarry_command: WarmTarry) -> Iterator[Callable[[str], tuple[int, str]]]:
    """Calls ``tarry``: its exit code, and what it wrote to stderr. In one process, for starting it is most of a call."""
    place = {"TARRY_URL": valkey_url, "TARRY_NAMESPACE": f"refusals-{os.getpid()}", "TARRY_LOG": "ERROR"}
    with (
        redis.Redis.from_url(valkey_url) as raw,
        tarry.Client(valkey_url, namespace=place["TARRY_NAMESPACE"]) as client,
        ExitStack() as stack,
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in place.items():
                patch.setenv(name, value)
            _, given, said = stack.enter_context(tarry_command.talk_to(REFUSED))
        client.topic("taken").add(1, id="7")
        client.topic("orders").configure(ttr="1m")  # so that it is known
        raw.rpush("a-list", 1)

        def call(words: str) -> tuple[int, str]:
            given.write(json.dumps(words) + "\n")
            code, _, told = json.loads(said.readline())
            return code, told

        yield call
        raw.delete("a-list")


@cases(("words", "said"), REFUSALS, ids=lambda one: one[:60])
def test_a_refusal_names_the_option(call_tarry: Callable[[str], tuple[int, str]], words: str, said: str) -> None:
    code, stderr = call_tarry(words)
    assert code in (1, 2), stderr
    assert said in stderr
    plain = re.sub(r"'[^']*'|\[\w+\]$", "''", stderr.strip())  # what was typed, and the error's code
    assert not OF_PYTHON.search(plain), plain


@pytest.mark.parametrize(
    ("command", "parameter", "option"),
    [
        (job_commands.pop, "limit", "--limit"),
        (guarded_commands.poll, "limit", "--limit"),
        (topic_commands.pause, "duration", "--duration"),
        (topic_commands.configure, "keep_dead", "--keep-dead"),
        (job_commands.release, "counted", "--uncounted"),
    ],
)
def test_the_librarys_parameter_is_named_by_its_option(command: Any, parameter: str, option: str) -> None:
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    assert with_option_names(parameters, f"{parameter}: 0; give another {parameter}=") == (
        f"{option}: 0; give another {option}"
    )


def test_a_command_of_others_names_one_that_exists() -> None:
    group: Any = typer.main.get_command(app)
    there = dict(verbs(group))
    for word, command in COMMANDS.items():
        name = " ".join(part for part in command.split() if part == part.lower())
        assert name in there or name in group.commands, command
        assert word not in there
        assert word not in group.commands


def verbs(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):  # Typer's groups are not click's in every version
            yield from verbs(command, f"{before}{name} ")
        else:
            yield before + name, command


def test_every_verb_has_a_refusal_test() -> None:
    group: Any = typer.main.get_command(app)
    said = {" ".join(words.split()) for words, _ in REFUSALS}
    left = {name for name, _ in verbs(group) if not any(words.startswith(name + " ") for words in said)}
    assert left - OF_EXTRAS.keys() == NOTHING_TO_REFUSE  # loaded by another test of this process, or not
