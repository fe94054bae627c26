"""The bench beside other job queues: its tables, its chart, and the frame with tarry and the bare commands."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from bench.peers import chart, page
from bench.peers.__main__ import measure
from bench.peers.catalogue import PEERS
from bench.peers.processes import Session
from bench.peers.readings import Found, Readings
from bench.peers.rows import ROWS, SIZES
from until import until


@pytest.fixture
def readings():
    found = Readings(page.machine("tiny", 2, busy=True))
    for value in (1000.0, 3000.0):
        found.put("raw", "add", {"one": Found(2 * value)})
        found.put(
            "tarry", "add", {"one": Found(value, {"client µs": 5.0}), "many": Found(None, {}, "has no such call")}
        )
        found.put("rq", "add", "the worker ended")
    found.put("tarry", "lateness", {"late_50_p99": Found(2.5, {}, "7 of 9 jobs ran")})
    return found


def test_a_table_has_medians_with_their_spread_and_the_share_of_the_limit(readings):
    text = page.as_markdown(readings)
    assert "| **tarry** | 2,000 ± 50%, 0.5 × |" in text
    assert "| Adding: one by one, jobs/s | 4,000 | 2,000 |" in text


def test_what_is_missing_is_a_dash_with_a_footnote(readings):
    readings.about["missing"] = {"celery": "not installed: no index"}
    text = page.as_markdown(readings)
    for reason in (
        "RQ: the worker ended",
        "tarry: has no such call",
        "tarry: 7 of 9 jobs ran",
        "Celery: not installed: no index",
    ):
        assert text.count(f"{reason}.") == 1
    assert "| RQ | — <sup>" in text


def test_a_line_that_was_not_measured_is_left_out(readings):
    text = page.as_markdown(readings)
    assert "p99 at 50 jobs/s" in text
    assert "p99 at 500 jobs/s" not in text


def test_the_page_says_that_the_machine_was_busy(readings):
    assert page.BUSY in page.as_markdown(readings)
    readings.about["busy"] = False
    assert page.BUSY not in page.as_markdown(readings)


def test_readings_survive_a_file_and_know_how_many_rounds_are_done(readings, tmp_path):
    file = tmp_path / "folder" / "readings.json"
    readings.save(file)
    again = Readings.load(file)
    assert again == readings
    assert (again.done("tarry", "add"), again.done("rq", "add"), again.done("rq", "burst")) == (2, 2, 0)


def test_the_chart_is_a_drawing_with_a_bar_for_each_value(readings):
    drawing = ET.fromstring(chart.draw(readings))
    bars = [one for one in drawing.iter("{http://www.w3.org/2000/svg}rect") if one.get("fill") != chart.PAPER]
    assert [bar.get("fill") for bar in bars] == [chart.THEIRS, chart.OURS]
    assert float(bars[0].get("width")) > float(bars[1].get("width"))


def test_bars_are_logarithmic():
    assert chart.length(100, 100) == chart.LONGEST
    assert chart.length(10, 100) == chart.LONGEST * (1 - 1 / chart.DECADES)
    assert chart.length(0, 100) == chart.length(1e-9, 100) == 1


def test_every_line_of_the_chart_exists_and_every_peer_has_an_adapter():
    assert all(line in ROWS[row].lines for row, line in chart.PANELS)
    assert all(peer.adapter.exists() for peer in PEERS.values())


def test_a_session_ends_with_everything_that_it_started(tmp_path):
    with Session(["sh", "-c", "sleep 600 & sleep 600"], tmp_path / "log", {}) as session:
        until(lambda: len(list(session.processes())) == 3, "its children")
    assert all(fields[1] == "Z" for fields in session.processes())  # nobody waits for an orphan in some containers


@pytest.mark.long
def test_tarry_and_the_bare_commands_take_part_in_every_row(tmp_path):
    readings, file = Readings({}), tmp_path / "readings.json"
    measure(readings, [PEERS["raw"], PEERS["tarry"]], list(ROWS), SIZES["tiny"], file)
    assert Readings.load(file) == readings
    for name, row in ROWS.items():
        lines = [line for line in row.lines if readings.has(name, line)]
        assert lines, name
        for line in lines:
            assert readings.reading("tarry", name, line), (name, line, readings.note("tarry", name, line))
    assert readings.note("raw", "recovery", "recovery").startswith("not run again")
