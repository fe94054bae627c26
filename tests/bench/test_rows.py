"""Every row of the benchmarks runs, with tiny sizes, and yields numbers. How large they are is nobody's business here."""

from __future__ import annotations

import json
import math
from functools import cache

import pytest

from bench import scale, table
from bench.harness import Bench, private_server
from bench.results import Reading, Result, Target
from bench.rows import ROWS

pytestmark = pytest.mark.slow
COSTLY = (
    "beanstalk",
    "burst",
    "cluster",
    "doctor",
    "firing",
    "hearing",
    "hostile",
    "lateness",
    "locks",
    "map_cache",
    "queue_movers",
    "service",
    "worker",
)
"""These rows start processes, Clusters or ZooKeeper, or wait in real time."""


@cache
def measured(name: str) -> list[Result]:
    with private_server() as server:
        return ROWS[name](Bench(server, "tiny", 1))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in COSTLY)) for name in ROWS])
def test_a_benchmark_row_yields_numbers(name):
    results = measured(name)
    assert results
    for result in results:
        assert result.row == name
        assert all(math.isfinite(value) and value >= 0 for value in result.tarry.values)
        assert len(table.cells(result)) == len(table.HEADINGS)
    json.dumps(table.as_data(results, table.machine("tiny", 1)))


@pytest.mark.long
def test_the_scale_page_is_computed_from_the_readings(tmp_path, monkeypatch):
    rows = ("add", "add_many", "add_tasks", "burst", "memory", "cluster")
    results = [result for name in rows for result in measured(name)]
    page, readings = tmp_path / "scale.md", tmp_path / "benchmarks.json"
    page.write_text(f"above\n{scale.BEGIN}\nold\n{scale.END}\nbelow\n", "utf-8")
    readings.write_text(json.dumps(table.as_data(results, table.machine("tiny", 1))), "utf-8")
    monkeypatch.setattr(scale, "PAGE", page)
    monkeypatch.setattr(scale, "READINGS", readings)
    monkeypatch.setattr(scale, "ROOT", tmp_path)
    scale.main()
    text = page.read_text("utf-8")
    assert "old" not in text
    assert text.count("12 partitions") == 2
    readings.write_text(json.dumps({"about": {}, "results": []}), "utf-8")
    with pytest.raises(SystemExit, match=r"benchmarks\.json has no row 'memory'"):
        scale.main()


def test_a_ratio_compares_medians_with_the_target():
    result = Result("r", "m", "µs", Reading((1, 3, 2)), Target("≥", 0.5, "ratio"), Reading((4, 4, 1)))
    assert (result.ratio, result.met) == (0.5, True)
    assert Result("r", "m", "µs", Reading((3,)), Target("≤", 2)).met is False
    assert Result("r", "m", "µs", Reading((3,))).met is None


def test_the_table_replaces_the_text_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"above\n{table.BEGIN}\nold\n{table.END}\nbelow\n", "utf-8")
    table.write(page, table.BEGIN, table.END, "new")
    assert page.read_text("utf-8") == f"above\n{table.BEGIN}\nnew\n{table.END}\nbelow\n"
