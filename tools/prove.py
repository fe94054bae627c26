"""Proves one tree of src, as far as the time allows: `make prove MINUTES=120`. The next call continues.

    make prove MINUTES=120            what fits into two hours; each finished part is recorded at once
    make prove ONLY=chaos,whole       only these parts
    make prove ONCE_MORE=long         this part once more, though its runs are complete: what made one red was mended
    tools/prove.py --left             what is left, and how long it takes
    tools/prove.py --render           the page again
    tools/prove.py --check            whether the commits after the proof leave it valid

tools/prove.toml lists the parts. docs/evidence/proof.json is the record: the hash of the tree (`git rev-parse HEAD:src`), and a line for
each part that ran, also for a red one. docs/evidence/proof.md is made from it. A record of another tree is not continued: the proof
begins again, and the first line says so. Of all parts that fit into the time that is left, the one that lacks the greatest share of its
target runs next. A part that has begun ends by itself; one that continues where it was ended (`again`) is ended with the time.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORES = os.cpu_count() or 1
BESIDE_BUSY_LOOPS = [sys.executable, str(ROOT / "tests" / "steady.py"), "--beside"]
RECORD, PAGE, FOLDER = "docs/evidence/proof.json", "docs/evidence/proof.md", "build/prove"
VERSION = "src/tarry/values/version.py"
RECORDS = ("docs", "CHANGELOG.md", "tests/mutants/results.json", "tests/unsteady.txt")
"""Files that the parts write, and pages: they may differ from the commit while a proof runs."""
AFTERWARDS = re.compile(r"docs/.*|[A-Z_]+\.md|" + re.escape(VERSION) + "|tests/mutants/results.json|tests/unsteady.txt")
"""What commits after the proof may change."""
DATED = re.compile(r"^## \S+, (.*)$", re.M)
QUIET, QUIET_S = 0.5, 300
"""The highest load per core of a quiet machine, and how long a part waits for it."""
GRACE_S = 30
"""A part that is ended has so long to end its own processes."""
DAY = "%Y-%m-%d %H:%M"
MINUTE = 60


@dataclass(frozen=True)
class Part:
    """A command and how much of it is wanted: a number of runs, or of events and acknowledged adds."""

    name: str
    what: str
    command: list[str]
    minutes: float
    times: int = 0
    again: list[str] = field(default_factory=list)
    busy: Any = ()
    quiet: bool = False
    unfinished: str = ""
    green: str = ""
    events: int = 0
    acknowledged: int = 0
    families: dict[str, int] = field(default_factory=dict)

    def runs(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        """What is recorded of it."""
        return [one for one in record["runs"] if one["part"] == self.name]

    def finished(self, record: dict[str, Any]) -> list[dict[str, Any]]:
        """The runs that came to their end."""
        return [one for one in self.runs(record) if one["finished"]]

    def seconds(self, record: dict[str, Any]) -> float:
        """How long its next run takes: as long as the longest."""
        known = [one["seconds"] for one in self.finished(record)]
        return float(self.minutes * MINUTE if self.again else max(known, default=self.minutes * MINUTE))


@dataclass(frozen=True)
class Step:
    """What could run next, and the share of its target that is there."""

    part: Part
    share: float
    family: str = ""


def plan(file: Path) -> list[Part]:
    """The parts of a list."""
    listed = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Part(name=name, **{"minutes": 10, **about}) for name, about in listed.items()]


def steps(parts: list[Part], record: dict[str, Any]) -> list[Step]:
    """What is left, the least share first."""
    found: list[Step] = []
    for part in parts:
        if not part.families:
            if (done := len(part.finished(record))) < part.times:
                found.append(Step(part, done / part.times))
            continue
        have, lacking = families(part, record), short_of_all(part, record)
        for family, least in part.families.items():
            # All have their least, and the sum is too small: all run again, the smallest first.
            target = max(least, part.events / len(part.families)) if lacking else least
            if have[family][0] < least or lacking:
                found.append(Step(part, have[family][0] / target, family))
    return sorted(found, key=lambda step: step.share)


def families(part: Part, record: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """The events and the acknowledged adds of each family."""
    total = dict.fromkeys(part.families, (0, 0))
    for run in part.finished(record):
        events, adds = total.get(run["family"], (0, 0))
        total[run["family"]] = (events + run["events"], adds + run["acknowledged"])
    return total


def short_of_all(part: Part, record: dict[str, Any]) -> bool:
    """Whether all families together have too few events or adds."""
    have = families(part, record).values()
    return sum(one[0] for one in have) < part.events or sum(one[1] for one in have) < part.acknowledged


def run(step: Step, record: dict[str, Any], root: Path, ends_in_s: float) -> dict[str, Any]:
    """One run of a part: its line of the record."""
    part = step.part
    line = begun(step, record, root)
    number = line["number"]
    results = root / FOLDER / f"{part.name}-{number}.json"
    words = {
        "{python}": sys.executable,
        "{number}": str(number),
        "{json}": str(results),
        "{src}": record["src"][:12],
        "{family}": step.family,
    }
    results.unlink(missing_ok=True)
    going_on = any(not one["finished"] for one in part.runs(record)[-1:])
    command = [fill(word, words) for word in (part.again if going_on else part.command)]
    if line["busy"]:
        command = [*BESIDE_BUSY_LOOPS, *command]
    output = root / FOLDER / f"{part.name}-{number}.log"
    began = time.monotonic()
    with output.open("wb") as said:
        code, ended = perform(command, root, said, ends_in_s if part.again else None)
    text = output.read_text(encoding="utf-8", errors="replace")
    line |= {"seconds": round(time.monotonic() - began, 1), "code": code} | said_by_pytest(text)
    unfinished = part.unfinished and re.search(fill(part.unfinished, words), text)
    line["finished"] = not (ended or unfinished)
    green = not part.green or re.search(fill(part.green, words), text) is not None
    line["red"] = line["finished"] and bool(code or line["failed"] or line["unsteady"] or not green)
    if part.families or results.exists():
        line |= said_by_chaos(results, step.family)
        line["red"] = line["red"] or bool(line["not_run"])
    return line


def begun(step: Step, record: dict[str, Any], root: Path) -> dict[str, Any]:
    """What is known of a run before it runs."""
    number = len(step.part.runs(record)) + 1
    return {
        "part": step.part.name,
        "number": number,
        "commit": git(root, "rev-parse", "--short=12", "HEAD"),
        "began": time.strftime(DAY),
        "load": round(os.getloadavg()[0], 1),
        "busy": step.part.busy == "all" or number in step.part.busy,
    }


def fill(text: str, words: dict[str, str]) -> str:
    """The text with what its braces stand for."""
    for name, word in words.items():
        text = text.replace(name, word)
    return text


def perform(command: list[str], root: Path, output: Any, ends_in_s: float | None) -> tuple[int, bool]:
    """Its exit code, and whether it was ended with the time. It ends with this program, with all that it started."""
    around = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    process = subprocess.Popen(
        command,
        cwd=root,
        env=around,
        stdout=output,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        return process.wait(ends_in_s), False
    except subprocess.TimeoutExpired:
        return end(process), True
    except BaseException:
        end(process)
        raise


def end(process: subprocess.Popen[bytes]) -> int:
    """As Ctrl-C does; then for sure."""
    for number in (signal.SIGINT, signal.SIGKILL):
        os.killpg(process.pid, number)
        try:
            return process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    return process.wait()


def said_by_pytest(text: str) -> dict[str, Any]:
    """The tests, as the last lines of a run name them."""
    lines = text.splitlines()
    counted = [line for line in lines if re.search(r"\b\d+ (passed|failed)\b", line)]
    failed = {line.split(maxsplit=1)[1].partition(" - ")[0] for line in lines if line.startswith("FAILED ")}
    unsteady = {line.split()[1] for line in lines if line.startswith("unsteady: ")}
    passed = re.search(r"(\d+) passed", counted[-1]) if counted else None
    return {"passed": int(passed[1]) if passed else 0, "failed": sorted(failed), "unsteady": sorted(unsteady)}


def said_by_chaos(results: Path, family: str) -> dict[str, Any]:
    """What the run wrote, but for the histories of broken promises, which stay in the log."""
    runs = json.loads(results.read_text(encoding="utf-8"))["runs"] if results.exists() else []
    only = runs[0] if runs else {"crashed": "it wrote no results"}
    return {
        "family": family,
        "events": only.get("events", 0),
        "acknowledged": only.get("acknowledged", 0),
        "not_run": only.get("skipped") or only.get("crashed") or "",
        "breaches": only.get("breaches", {}),
    }


def git(root: Path, *words: str) -> str:
    """What git answers."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def read(root: Path) -> dict[str, Any]:
    """The record; an empty one, if there is none."""
    file = root / RECORD
    if not file.exists():
        return {"src": "", "runs": []}
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def write(root: Path, record: dict[str, Any], parts: list[Part]) -> None:
    """The record and its page, each whole at any moment. A line for each run, so that a difference can be read."""
    runs = ",\n".join("  " + json.dumps(one, sort_keys=True) for one in record["runs"])
    text = f'{{\n "src": {json.dumps(record["src"])},\n "runs": [\n{runs}\n ]\n}}\n'
    for name, content in ((RECORD, text), (PAGE, page(record, parts))):
        whole = (root / name).with_suffix(".part")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(content, encoding="utf-8")
        whole.replace(root / name)


def page(record: dict[str, Any], parts: list[Part]) -> str:
    """The proof as a page."""
    rows = [
        "<!-- made by tools/prove.py: `make prove` -->\n",
        "# The proof of a release\n",
        "Before a version is released, `make prove` runs the tests and benchmarks of the first table, all with the same content of the folder `src`.",
        "If it is interrupted, the next `make prove` continues. The table shows how often each part is to run, how often it has run, and",
        "how often it failed. An *unsteady* test failed once, and then passed twice alone. [Release a version](../maintainers/release.md)",
        "says when to run all this.\n",
        (f"The tree is `{record['src']}` (`git rev-parse HEAD:src`)." if record["src"] else "No part has run yet.")
        + "\n",
        "| part | wanted | run | failed | unsteady tests | minutes of a run, median | minutes in all |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for part in parts:
        runs = part.runs(record)
        times = [one["seconds"] / MINUTE for one in runs]
        there, wanted = f"{len(part.finished(record)):,}", f"{part.times:,}"
        if part.families:
            have = families(part, record).values()
            wanted = f"{part.events:,} events, {part.acknowledged:,} acknowledged adds"
            there = f"{sum(one[0] for one in have):,} events, {sum(one[1] for one in have):,} acknowledged adds"
        red, unsteady = sum(one["red"] for one in runs), sum(len(one["unsteady"]) for one in runs)
        middle = f"{statistics.median(times):.1f}" if times else "–"
        rows.append(f"| {part.what} | {wanted} | {there} | {red} | {unsteady} | {middle} | {sum(times):.0f} |")
    for part in parts:
        if part.families:
            rows.append(
                "\n`make chaos` injects faults of several families, which [Reliability](reliability.md) describes. An *event* is what a client\n"
                "recorded about one job, such as an add, a hand-out or a finish. Each family must reach a least number of them.\n"
            )
            rows += ["| family | least events | events | acknowledged adds |", "|---|--:|--:|--:|"]
            have_of = families(part, record)
            rows += [
                f"| `{name}` | {least:,} | {have_of[name][0]:,} | {have_of[name][1]:,} |"
                for name, least in part.families.items()
            ]
    bad = [one for one in record["runs"] if one["red"] or one["unsteady"]]
    if bad:
        rows += ["\n| red or unsteady | began | load | what |", "|---|---|--:|---|"]
        rows += [f"| {one['part']} {one['number']} | {one['began']} | {one['load']} | {faults(one)} |" for one in bad]
    if len(commits := sorted({one["commit"] for one in record["runs"]})) > 1:
        rows.append(
            f"\nThe parts ran on the commits {', '.join(f'`{one}`' for one in commits)}, which have the same `src`."
        )
    return "\n".join(rows) + "\n"


def faults(one: dict[str, Any]) -> str:
    """Why a run is not green, in a cell."""
    said = [f"`{test}` failed" for test in one["failed"]] + [f"`{test}` is unsteady" for test in one["unsteady"]]
    said += [f"{name}: {many}" for name, many in one.get("breaches", {}).items()]
    said += [one["not_run"]] if one.get("not_run") else []
    return "; ".join(said) or f"ended with {one['code']}"


def verdict(root: Path) -> list[str]:
    """Why the proof is none of what is checked out; nothing, if it is, or if this is no release: its changes have no date yet."""
    changes = DATED.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if changes is None or not re.fullmatch(r"\d{4}-\d\d-\d\d", changes[1]):
        return []
    record = read(root)
    if not record["runs"]:
        return ["nothing has been proved yet: make prove"]
    now = git(root, "rev-parse", "HEAD:src")
    changed = differing(root, record["src"], now, "src/")
    if changed is None:
        return [f"the proof is of the tree {record['src']}, which this repository does not have"]
    if changed := [name for name in changed if name != VERSION]:
        return [f"the proof is of an older tree of src: {', '.join(changed)} changed since; make prove begins again"]
    later = differing(root, record["runs"][-1]["commit"], "HEAD", "")
    if later is None:
        return [
            f"the last part of the proof ran on {record['runs'][-1]['commit']}, which this repository does not have"
        ]
    wrong = [name for name in later if not AFTERWARDS.fullmatch(name)]
    return (
        [f"commits after the proof change more than pages, changes and the version: {', '.join(wrong)}"]
        if wrong
        else []
    )


def differing(root: Path, one: str, other: str, below: str) -> list[str] | None:
    """The files that two trees have not alike; nothing, if one of them is not there."""
    words = ["git", "diff", "--name-only", one, other]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    return None if done.returncode else [below + name for name in done.stdout.split()]


def is_quiet() -> bool:
    """Whether the machine is, within a few minutes."""
    until = time.monotonic() + QUIET_S
    while os.getloadavg()[0] > QUIET * CORES:
        if time.monotonic() > until:
            return False
        time.sleep(5)
    return True


def left(parts: list[Part], record: dict[str, Any]) -> str:
    """What is left, one line a part, with the minutes that it takes."""
    lines = []
    for part in parts:
        more = steps([part], record)
        many = len(more) if part.families else part.times - len(part.finished(record))
        if more:
            what = f"{many} families" if part.families else f"{many} of {part.times}"
            lines.append(
                f"  {part.name:8} {what:14} some {many * part.seconds(record) / MINUTE:,.0f} minutes: {part.what}"
            )
    return "\n".join(["left:", *lines]) if lines else "nothing is left"


def prove(root: Path, parts: list[Part], minutes: float, only: Iterable[str], once_more: Iterable[str] = ()) -> int:
    """Runs what fits, and answers 1 if anything in the record is red."""
    dirty = git(root, "status", "--porcelain", "--", ".", *(f":!{name}" for name in RECORDS))
    if dirty:
        sys.exit(f"A proof is of a commit. Commit or remove first:\n{dirty}")
    record, src = read(root), git(root, "rev-parse", "HEAD:src")
    if record["src"] != src:
        if record["runs"]:
            print(f"the record is of another tree of src ({record['src'][:12]}): the proof begins again", flush=True)
        record = {"src": src, "runs": []}
    chosen = [part for part in parts if not only or part.name in only]
    if once_more:
        chosen = [replace(part, times=len(part.finished(record)) + 1) for part in parts if part.name in once_more]
    until, passed_over = time.monotonic() + minutes * MINUTE, set()
    while True:
        remaining = until - time.monotonic()
        fitting = [
            step
            for step in steps(chosen, record)
            if (step.part.name, step.family) not in passed_over and step.part.seconds(record) <= remaining
        ]
        if not fitting:
            break
        step = fitting[0]
        key = (step.part.name, step.family)
        if step.part.quiet and not is_quiet():
            print(f"{step.part.name}: not now, the machine is not quiet (load {os.getloadavg()[0]:.1f})", flush=True)
            passed_over.add(key)
            continue
        if step.part.again:  # a killed one is continued, too
            record["runs"].append(
                begun(step, record, root) | {"seconds": 0, "finished": False, "red": False} | said_by_pytest("")
            )
            write(root, record, parts)
            record = record | {"runs": record["runs"][:-1]}
        line = run(step, record, root, until - time.monotonic())
        if git(root, "rev-parse", "HEAD:src") != src:
            sys.exit("src was changed by a commit meanwhile: this part counts for no tree, and the proof begins again")
        record["runs"].append(line)
        write(root, record, parts)
        if line.get("not_run") or not line["finished"]:
            passed_over.add(key)
        colour = "RED" if line["red"] else "green" if line["finished"] else "to be continued"
        tests = (
            f", {line['passed']:,} passed"
            if line["passed"]
            else f", {line.get('events', 0):,} events"
            if step.family
            else ""
        )
        bad = f": {faults(line)}" if line["red"] or line["unsteady"] else ""
        print(
            f"{line['part']} {line['number']} {step.family} {colour} in {line['seconds'] / MINUTE:.1f} min{tests}{bad}",
            flush=True,
        )
    print(left(parts, record), flush=True)
    return int(any(one["red"] for one in record["runs"]))


def main() -> int:
    """See the top."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0, help="begin nothing that would take longer; 120")
    parser.add_argument("--only", default="", help="these parts, with commas")
    parser.add_argument("--plan", type=Path, default=Path(__file__).with_suffix(".toml"), help="another list of parts")
    parser.add_argument("--root", type=Path, default=ROOT, help="another repository")
    parser.add_argument("--once-more", default="", help="only these parts, with commas, one more time")
    for name in ("left", "render", "check"):
        parser.add_argument(f"--{name}", action="store_true")
    asked = parser.parse_args()
    parts, root = plan(asked.plan), asked.root.resolve()
    only, once_more = ([name for name in names.split(",") if name] for names in (asked.only, asked.once_more))
    if unknown := {*only, *once_more} - {part.name for part in parts}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in parts)}")
    if any(part.families for part in parts if part.name in once_more):
        parser.error("chaos counts events, not runs: --only chaos runs what it lacks")
    if asked.left:
        print(left(parts, read(root)))
    elif asked.render:
        write(root, read(root), parts)
    elif asked.check:
        print(*verdict(root), sep="\n", end="")
        return bool(verdict(root))
    else:
        (root / FOLDER).mkdir(parents=True, exist_ok=True)
        with (root / FOLDER / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.exit("another `make prove` runs here")
            return prove(root, parts, asked.minutes, only, once_more)
    return 0


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: the part under way is not recorded, and the next call begins it again")
