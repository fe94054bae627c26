"""docs/interface.txt has everything that users can name: compared with the objects, by other ways than the generator's."""

from __future__ import annotations

import re

import generate
import tarry
from doc_pages import ROOT
from tarry import errors
from tarry.programs.dashboard.sections import actions, downloads, sections
from tarry.programs.dialects.mounts import ALL_DIALECTS
from tarry.programs.service.routes import routes_of
from walked import cases

TEXT = (generate.DOCS / "interface.txt").read_text(encoding="utf-8")
LINES = set(TEXT.splitlines())


def section(title: str) -> list[str]:
    return TEXT.partition(f"\n## {title}\n\n")[2].partition("\n\n## ")[0].splitlines()


@cases(
    "line",
    [
        r"class tarry\.BadInput\(tarry\.TarryError, ValueError\)",
        r"tarry\.BadInput\.code = 'bad_input'",
        r"tarry\.JobExists\.id: str",
        r"tarry\.Client\(url: str \| None = None, \*, namespace: str \| None = None, .*\)",
        r"tarry\.Topic\.add\(body: T, \*, delay: Duration = …, .*\) -> Added",
        r"async tarry\.AsyncTopic\.add\(body: T, \*, delay: Duration = …, .*\) -> Added",
        r"tarry\.Client\.topic\(name: str, \*, type: None = None, .*\) -> Topic\[Any\]",
        r"tarry\.Client\.topic\(name: str, \*, type: type\[T\] .*\) -> Topic\[T\]",
        r"tarry\.Client\.__enter__\(\) -> Self",
        r"tarry\.types\.BaseJob\.body: T, read-only",
        r"tarry\.types\.Rate\.per: timedelta",
        r"tarry\.types\.Duration = int \| float \| str \| timedelta",
        r"tarry\.errors\.BadInput = tarry\.BadInput",
        r"tarry\.zookeeper\.Client\(hosts: str = .*\)",
        r"tarry\.django\.worker: Worker",
        r"tarry\.otel\.instrument\(.*\) -> None",
        r"tarry_url: Iterator\[str\], one for a session",
        r"tarry add TOPIC \[BODY\]",
        r"tarry add --if-exists ACTION: str = 'error'",
        r'settings\.TARRY\["URL"\]: str \| None',
        r"manage\.py tarry_worker --processes: int = 1",
        r"POST /v1/topics/\{topic\}/jobs body, application/json: \w+",
        r"POST /v1/topics/\{topic\}/jobs \?namespace: string",
        r"Problem\.code: string, required",
        r"stale_receipt 409",
        r"tarry_jobs gauge \{namespace, topic, state\}",
    ],
)
def test_a_line_tells_one_thing(line: str) -> None:
    assert [one for one in LINES if re.fullmatch(line, one)]


def test_what_handles_have_for_programs_has_no_line() -> None:
    assert [one for one in section("Python") if re.search(r"\.(engine|verbs)\b", one)] == []


def test_every_public_name_has_a_line() -> None:
    text = "\n".join(section("Python"))
    told = set(re.findall(r"^(?:class |async )?(tarry(?:\.(?:types|redisson|errors))?\.\w+)", text, re.M))
    for home in (tarry, tarry.types, tarry.redisson):
        assert {f"{home.__name__}.{name}" for name in home.__all__} <= told
    own = [one for one in errors.TarryError.__subclasses__() if "code" in vars(one)]
    homes = {one: "tarry" if one.__name__ in tarry.__all__ else "tarry.errors" for one in own}
    assert {f"{home}.{one.__name__}.code = {one.code!r}" for one, home in homes.items()} <= LINES


def test_every_route_has_a_line() -> None:
    routes = {f"{row.method} {row.path}" for row in routes_of(ALL_DIALECTS.mounts("default"))}
    assert routes <= {" ".join(line.split()[:2]) for line in section("HTTP: routes")}


def test_every_route_of_the_dashboard_has_a_line() -> None:
    told = section("HTTP: the dashboard's routes and actions")
    assert {f"GET {part.path}" for part in (*sections(), *downloads())} <= set(told)
    assert {f"POST /act {name}" for name in actions()} <= set(told)


def test_every_attribute_has_its_type() -> None:
    """What a constructor sets is a promise, too."""
    untyped = [line for line in section("Python") if re.fullmatch(r"tarry\.[\w.]*[A-Z]\w*\.\w+", line)]
    assert untyped == []


def test_every_variable_of_the_settings_page_has_a_line() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert section("Environment") == sorted(set(re.findall(r"^\| `(TARRY_\w+)` \|", page, re.M)))


def test_every_metric_that_an_alert_reads_has_a_line() -> None:
    page = (ROOT / "docs" / "production" / "alerts.md").read_text(encoding="utf-8")
    read = {re.sub(r"_(bucket|sum|count)$", "", one) for one in re.findall(r"\btarry_[a-z_]+\b", page)}
    named = {line.split()[0] for line in section("Metrics")}
    assert {one for one in read if re.search("_(total|seconds|jobs|ratio)$", one)} <= named


def test_nothing_in_it_depends_on_the_machine_or_the_python() -> None:
    assert re.findall(r" at 0x|<class|<function|<object|typing\.|Optional\[|Union\[", TEXT) == []
