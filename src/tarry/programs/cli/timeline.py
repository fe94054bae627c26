"""Draws ``tarry top``, the time line of the due jobs, and ``tarry histogram``, a part of it with numbers.

    orders  delayed 812  ready 0  reserved 20  dead 1  finished 98/s  late 0.9ms, p99 2.1ms  2 workers, 20 of 100 busy
            ▁●▃▅█▂▁  ▁▂▃▂▁        │▁▂▁▁▂▁▁▁            │▁     ▁         │▶
     late 1   next minute 735      next hour 70         next day 7      later 3

    ada:4711:k3x9  busy 12 of 50  orders 12/50  for 2h 3m, reported 4s ago  longest orders/7 8s

Each part of the time line is one call of ``histogram``, which costs the same for three jobs and for a million.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.rule import Rule
from rich.text import Text

from tarry.internal import one_line, perform_view, server_verbs
from tarry.programs.cli import output
from tarry.programs.cli.worker_commands import as_text
from tarry.programs.serving.conditions import Condition, assess_topic, facts_of, severity

if TYPE_CHECKING:
    from tarry import Client, Histogram, MinuteCounts, Stats, Topic
    from tarry.types import WorkerInfo

BARS = " ▁▂▃▄▅▆▇█"
LATE = ("the past hour", "1h", 10)
SPANS = (("next minute", "0", "1m", 20), ("next hour", "1m", "1h", 18), ("next day", "1h", "1d", 14))
"""Name, start, end, columns in a window of usual width; a wider one has more."""
SHORT = {"next minute": "1m", "next hour": "1h", "next day": "1d"}
"""The names where there is no room for the long ones."""
USUAL_COLUMNS, AROUND = LATE[2] + sum(columns for *_, columns in SPANS), 18
"""Columns of all bars, and of what stands around them."""
USUAL_WIDTH = USUAL_COLUMNS + AROUND
MOST_COLUMNS_SCALE = 5.0
PER_MINUTE = ("added", "finished", "failed", "died")
RATES = ("added", "popped", "finished", "released", "timed_out", "died")
MOST_WORKERS = 20
LONGEST_BAR = 50
BETWEEN, INDENT = "  ", "    "
LEVEL_STYLES = {"bad": "bold red", "calm": "magenta", "good": "green"}
UNTOLD = ("empty", "on_time")
"""Conditions that the counts tell."""
STATES = {"delayed": "yellow", "ready": "green", "reserved": "cyan", "dead": "red"}


@dataclass(frozen=True, slots=True)
class TopicView:
    """The stats and histograms of one topic at one moment."""

    stats: Stats
    past: Histogram
    stretches: tuple[Histogram, ...]
    conditions: tuple[Condition, ...]


def view_topics(
    client: Client, names: Sequence[str], width: int = USUAL_WIDTH, workers: Sequence[WorkerInfo] = ()
) -> dict[str, TopicView]:
    """Reads the views of the topics in one pipeline; of all known topics by default. The time line fills a window of a width.
    ``workers`` are the live ones, which their conditions are about, too."""
    from tarry.internal import gather
    from tarry.programs.cli.nodes import read_nodes

    chosen = list(names or sorted(client.topics()))
    server = facts_of(read_nodes(client).values())
    scale = min(max((width - AROUND) / USUAL_COLUMNS, 0), MOST_COLUMNS_SCALE)
    found = perform_view(client, gather(_view_topic(client.topic(name), scale) for name in chosen))
    return {
        name: TopicView(stats, past, stretches, assess_topic(stats, workers, server))
        for name, (stats, past, stretches) in zip(chosen, found, strict=True)
    }


def _view_topic(topic: Topic[Any], scale: float) -> Generator[Any, Any, tuple[Stats, Histogram, tuple[Histogram, ...]]]:
    from tarry.internal import SECOND, duration_us, gather

    verbs = server_verbs(topic)
    past = verbs.histogram(0, LATE[1], max(int(LATE[2] * scale), 1), LATE[1])
    stretches = [
        verbs.histogram(start, (duration_us(end) - duration_us(start)) / SECOND, max(int(columns * scale), 1), 0)
        for _, start, end, columns in SPANS
    ]
    requests: list[Any] = [verbs.stats(), past, *stretches]
    stats, late, *rest = yield from gather(requests)
    return stats, late, tuple(rest)


def frame(views: dict[str, TopicView], before: dict[str, TopicView], workers: Sequence[WorkerInfo]) -> RenderableType:
    """One frame; rates are differences to the frame before."""
    names = sorted(views, key=lambda name: (*worst_key(views[name]), name))
    rows: list[RenderableType] = [block(name, views[name], before.get(name), workers) for name in names]
    busiest = sorted(workers, key=lambda info: -info.busy)
    rows += [
        Text(as_text(info), "" if info.busy else "dim", overflow="ellipsis", no_wrap=True)
        for info in busiest[:MOST_WORKERS]
    ]
    if len(busiest) > MOST_WORKERS:
        rows.append(Text(f"and {len(busiest) - MOST_WORKERS} more workers", "dim"))
    return Group(*rows) if rows else Text("there is no topic yet", "dim")


def worst_key(view: TopicView) -> tuple[float, ...]:
    """Sorts topics: by their worst condition, then the one whose first job has been due for longest, or is due first."""
    moments = (
        view.stats.oldest_ready,
        view.stats.next_due,
    )  # not counted from now: topics are read one after the other
    ready, due = (math.inf if moment is None else moment.timestamp() for moment in moments)
    return *severity(view.conditions), ready, due


def block(
    name: str, view: TopicView, last: TopicView | None, workers: Sequence[WorkerInfo], *, marked: bool = False
) -> Group:
    """One topic: its counts and rates, its time line, a rule."""
    head = _head(name, view.stats, last.stats if last else None)
    if marked:
        head[0].stylize("reverse")
    told = [Text(one_line(one.sentence), LEVEL_STYLES[one.level]) for one in view.conditions if one.kind not in UNTOLD]
    return Group(Phrases([*head, *_workers_line(name, workers), *told]), _line(view), Rule(style="dim"))


class Phrases:
    """Phrases in one line if it is wide enough, otherwise wrapped between phrases, indented."""

    def __init__(self, phrases: Sequence[Text]) -> None:
        self._phrases = phrases

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line = Text(no_wrap=True, overflow="ellipsis")
        for phrase in self._phrases:
            if line.plain.strip():
                if line.cell_len + len(BETWEEN) + phrase.cell_len > options.max_width:
                    yield line
                    line = Text(INDENT, no_wrap=True, overflow="ellipsis")
                else:
                    line.append(BETWEEN)
            line.append_text(phrase)
        yield line


def _workers_line(name: str, workers: Sequence[WorkerInfo]) -> list[Text]:
    """The workers that consume the topic."""
    found = output.topic_workers(workers, name)
    if not found["workers"]:
        return []
    return [Text(f"{output.count_text(found['workers'], 'worker')}, {found['busy']} of {found['slots']} busy", "dim")]


def _head(name: str, stats: Stats, last: Stats | None) -> list[Text]:
    line = [Text(one_line(name), "bold")]
    for state, colour in STATES.items():
        count = getattr(stats, state)
        line.append(Text(f"{state} {count}", colour if count else "dim"))
    seconds = (stats.now - last.now).total_seconds() if last else 0.0
    if last is not None and seconds > 0:
        for counter in RATES:
            rate = (getattr(stats, counter) - getattr(last, counter)) / seconds
            if rate > 0:
                line.append(Text(f"{counter.replace('_', ' ')} {rate:.3g}/s"))
    late = stats.lateness.since(last.lateness) if last else stats.lateness
    if not late.count:
        late = stats.lateness  # none since the last frame: the overall lateness
    if late.count and stats.limited is None:  # else they wait for a limit, which a condition tells
        line.append(Text(f"late {output.span_text(late.p50)}, p99 {output.span_text(late.p99)}", "dim"))
    return line


def _line(view: TopicView) -> RenderableType:
    """Past, now, next minute, hour, day, later; one logarithmic scale for all."""
    top = max([*view.past.counts, *(count for part in view.stretches for count in part.counts), 1])
    late = sum(view.past.counts) + view.past.before
    bars = Text(" ", no_wrap=True, overflow="crop").append(_bars(view.past.counts, top), "red").append("●", "bold red")
    label = f"late {late}"
    names = Text(f" {label:<{len(view.past.counts)}} ", "red" if late else "dim", no_wrap=True, overflow="ellipsis")
    bars.append(" " * max(len(label) - len(view.past.counts), 0))
    for (name, *_), part in zip(SPANS, view.stretches, strict=True):
        bars.append(_bars(part.counts, top), "yellow").append("│", "dim")
        label = f"{name} {sum(part.counts)}"
        if len(label) > len(part.counts):
            label = f"{SHORT[name]} {sum(part.counts)}"
        names.append(f"{label:<{len(part.counts)}} ", "dim")
        if len(label) > len(part.counts):
            bars.append(" " * (len(label) - len(part.counts)))
    names.append(f"later {view.stretches[-1].after}", "dim")
    return Group(bars.append("▶", "dim"), names)


def histogram_lines(topic: str, found: Histogram) -> Iterator[str]:
    """A histogram with numbers: a line for each bucket, with its start relative to now."""
    begins = [output.span_text(found.start - found.now + i * found.width) for i in range(len(found.counts))]
    wide, top = max(map(len, begins)), max(found.counts)
    span = output.span_text(len(begins) * found.width)
    yield f"{topic}  {sum(found.counts)} due within {span} from {begins[0]} on  before {found.before}  after {found.after}"
    for begin, count in zip(begins, found.counts, strict=True):
        bar = "█" * math.ceil(count / top * LONGEST_BAR) if count else ""
        yield f"{INDENT}{begin:>{wide}}  {bar}{' ' if bar else ''}{count}"


def throughput_lines(topic: str, span: str, found: Sequence[MinuteCounts]) -> Iterator[str]:
    """The sums, and a table with a line for each minute, by local time."""
    sums = "  ".join(f"{name} {sum(getattr(minute, name) for minute in found)}" for name in PER_MINUTE)
    yield f"{topic}  in the last {span}  {sums}"
    days = bool(found) and found[-1].start - found[0].start >= timedelta(days=1)
    when, wide = ("%b %d %H:%M", 12) if days else ("%H:%M", 6)
    if found:
        yield INDENT + BETWEEN.join([f"{'from' if days else 'minute':{wide}}", *PER_MINUTE])
    for minute in found:
        numbers = [f"{getattr(minute, name):>{len(name)}}" for name in PER_MINUTE]
        yield INDENT + BETWEEN.join([f"{minute.start.astimezone().strftime(when):{wide}}", *numbers])


def _bars(counts: Sequence[int], top: int) -> str:
    """A bar for each count, logarithmic; a single job is visible."""
    steps = len(BARS) - 2
    return "".join(BARS[1 + round(math.log1p(n) / math.log1p(top) * steps)] if n else BARS[0] for n in counts)
