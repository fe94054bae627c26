"""The alert rules, evaluated by Prometheus's own promtool: each alert on series that must fire it, and on calm ones."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).parents[2] / "examples" / "deploy" / "prometheus-rules.yml"
PROMTOOL = shutil.which("promtool")
TOPIC = 'namespace="shop", topic="orders"'
SCRAPES = 75
"""One a minute: enough for the slowest alert, which waits for an hour."""

pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="needs promtool (apt install prometheus)")


def gauge(value: float) -> str:
    return f"{value}x{SCRAPES}"


def counter(step: float) -> str:
    return f"0+{step}x{SCRAPES}"


CALM = {
    f"tarry_oldest_overdue_seconds{{{TOPIC}}}": gauge(0),
    f"tarry_paused{{{TOPIC}}}": gauge(0),
    f"tarry_watching{{{TOPIC}}}": gauge(2),
    f'tarry_jobs{{{TOPIC}, state="delayed"}}': gauge(12),
    f'tarry_jobs{{{TOPIC}, state="ready"}}': gauge(0),
    f'tarry_jobs{{{TOPIC}, state="reserved"}}': gauge(0),
    f"tarry_popped_total{{{TOPIC}}}": counter(60),
    f"tarry_died_total{{{TOPIC}}}": counter(0),
    f"tarry_timed_out_total{{{TOPIC}}}": counter(0),
    f"tarry_lost_total{{{TOPIC}}}": counter(0),
    f"tarry_finished_lost_total{{{TOPIC}}}": counter(0),
    f"tarry_not_added_total{{{TOPIC}}}": counter(0),
    f"tarry_held_total{{{TOPIC}}}": counter(0),
    f'tarry_lateness_seconds_bucket{{{TOPIC}, le="0.004"}}': counter(60),
    f'tarry_lateness_seconds_bucket{{{TOPIC}, le="16"}}': counter(60),
    f'tarry_lateness_seconds_bucket{{{TOPIC}, le="+Inf"}}': counter(60),
    'tarry_server_round_trip_seconds_bucket{le="0.01"}': counter(4),
    'tarry_server_round_trip_seconds_bucket{le="0.25"}': counter(4),
    'tarry_server_round_trip_seconds_bucket{le="+Inf"}': counter(4),
    "tarry_server_round_trip_seconds_count": counter(4),
    "tarry_server_memory_used_ratio": gauge(0.5),
    "tarry_server_up": gauge(1),
    'tarry_http_request_seconds_count{route="jobs_add", status="201"}': counter(60),
}
"""A topic whose jobs all come on time."""


def condition(kind: str, value: int) -> dict[str, str | None]:
    return {f'tarry_condition{{{TOPIC}, kind="{kind}"}}': gauge(value)}


LATE: dict[str, str | None] = {f"tarry_oldest_overdue_seconds{{{TOPIC}}}": gauge(90)}
NO_WORKERS = condition("no_consumer", 1)
CASES: dict[str, tuple[set[str], dict[str, str | None]]] = {
    "all is calm": (set(), {}),
    "nobody takes a late job": ({"TarryJobsLate"}, {**LATE, **condition("late", 2)}),
    "a pause or a limit holds jobs back": (set(), {**LATE, **condition("held_back", 1)}),
    "handed out late": ({"TarryLatenessHigh"}, {f'tarry_lateness_seconds_bucket{{{TOPIC}, le="0.004"}}': counter(30)}),
    "jobs die": ({"TarryJobsDie"}, condition("died", 2)),
    "a job died": (set(), condition("died", 1)),
    "nobody knows a task": ({"TarryTasksUnknown"}, condition("unknown_tasks", 2)),
    "a worker does not know a task": (set(), condition("unknown_tasks", 1)),
    "workers are killed": ({"TarryJobsStuck"}, {f"tarry_timed_out_total{{{TOPIC}}}": counter(2)}),
    "producers are refused": ({"TarryTopicFull"}, {f"tarry_not_added_total{{{TOPIC}}}": counter(50)}),
    "schedules wait": ({"TarryTopicFull"}, {f"tarry_held_total{{{TOPIC}}}": counter(12)}),
    "a topic is nearly full": ({"TarryTopicNearlyFull"}, {f"tarry_max_pending{{{TOPIC}}}": gauge(13)}),
    "a topic has room": (set(), {f"tarry_max_pending{{{TOPIC}}}": gauge(14)}),
    "its bytes are nearly full": (
        {"TarryTopicNearlyFull"},
        {f"tarry_pending_bytes{{{TOPIC}}}": gauge(91), f"tarry_max_pending_bytes{{{TOPIC}}}": gauge(100)},
    ),
    "no workers": ({"TarryNoWorkers"}, NO_WORKERS),
    "all workers are busy": (set(), {**NO_WORKERS, f'tarry_jobs{{{TOPIC}, state="reserved"}}': gauge(4)}),
    "no workers, on purpose": ({"TarryPausedForLong"}, {**NO_WORKERS, f"tarry_paused{{{TOPIC}}}": gauge(1)}),
    "records are missing": ({"TarryRecordsLost"}, {f"tarry_lost_total{{{TOPIC}}}": counter(1)}),
    "records of finished jobs are missing": (
        {"TarryRecordsLost"},
        {f"tarry_finished_lost_total{{{TOPIC}}}": counter(1)},
    ),
    "an older service misses records": (
        {"TarryRecordsLost"},
        {f"tarry_lost_total{{{TOPIC}}}": counter(1), f"tarry_finished_lost_total{{{TOPIC}}}": None},
    ),
    "keys hold jobs back": ({"TarryKeysHoldBack"}, {f"tarry_held_back_jobs{{{TOPIC}}}": gauge(12_000)}),
    "keys hold few jobs back": (set(), {f"tarry_held_back_jobs{{{TOPIC}}}": gauge(9_000)}),
    "very many jobs": ({"TarryBacklogGrows"}, {f'tarry_jobs{{{TOPIC}, state="delayed"}}': gauge(1_500_000)}),
    "two services export the same": (
        set(),
        {f'tarry_jobs{{{TOPIC}, state="delayed", instance="{one}"}}': gauge(600_000) for one in "ab"},
    ),
    "the server is full": ({"TarryServerFull"}, {"tarry_server_memory_used_ratio": gauge(0.95)}),
    "the server is slow": ({"TarryServerSlow"}, {'tarry_server_round_trip_seconds_bucket{le="0.01"}': counter(0)}),
    "the service fails": (
        {"TarryServiceErrors"},
        {'tarry_http_request_seconds_count{route="jobs_add", status="503"}': counter(60)},
    ),
    "the server is away": ({"TarryMetricsMissing"}, {"tarry_server_up": gauge(0)}),
    "there are no metrics": ({"TarryMetricsMissing"}, dict.fromkeys(CALM)),
}


FIRING = 'count by (alertname, topic) (ALERTS{alertstate="firing"})'


def promtool(*words: str | Path) -> None:
    here = {**os.environ, "GOGC": "400"}  # it collects garbage for half of its time otherwise
    done = subprocess.run([str(PROMTOOL), *map(str, words)], env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_rules() -> None:
    promtool("check", "rules", RULES)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    """promtool takes half a second of processor time for a case: what is about a topic is one case of many topics."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    alerts = {rule["alert"] for rule in group["rules"]}
    assert {alert for fires, _ in CASES.values() for alert in fires} == alerts, "each has a case"
    of_topics = {name: one for name, one in CASES.items() if all(TOPIC in series for series in one[1])}
    cases = [
        case(name, {**CALM, **changed}, [(alert, None) for alert in fires])
        for name, (fires, changed) in CASES.items()
        if name not in of_topics
    ]
    topics: dict[str, str | None] = {}
    for name, (_, changed) in of_topics.items():
        own = TOPIC.replace("orders", name)
        topics |= {series.replace(TOPIC, own): values for series, values in {**CALM, **changed}.items()}
    fire = [(alert, name) for name, (fires, _) in of_topics.items() for alert in fires]
    cases.append(case("topics", topics, fire))
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": cases}))
    promtool("test", "rules", file)


def case(name: str, series: dict[str, str | None], fire: Iterable[tuple[str, str | None]]) -> dict[str, Any]:
    """A case of promtool: these alerts fire, each for its topic, and no other."""
    samples = [f'{{alertname="{alert}"' + (f', topic="{topic}"}}' if topic else "}") for alert, topic in fire]
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items() if values is not None],
        "promql_expr_test": [
            {
                "expr": FIRING,
                "eval_time": f"{SCRAPES}m",
                "exp_samples": [{"labels": labels, "value": 1} for labels in samples],
            }
        ],
    }
