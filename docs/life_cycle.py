"""The life cycle of a job: each step from one state to another, and what causes it; and its picture.

Each step is tried on a server, and the model and the dashboard's buttons are compared with the table (tests/model/test_lifecycle.py).
"""

from __future__ import annotations

from html import escape
from typing import Literal, NamedTuple

from tarry.types import State

Place = State | Literal["new", "gone"]


class Step(NamedTuple):
    """One step. ``cause`` is a verb, or ``time``: nothing is written, the same record has another state."""

    cause: str
    before: Place
    after: Place
    condition: str = ""


STATES: tuple[State, ...] = ("delayed", "ready", "reserved", "dead")
STEPS = (
    Step("add", "new", "delayed", "with a delay"),
    Step("add", "new", "ready"),
    Step("time", "delayed", "ready", "it is due"),
    Step("reschedule", "delayed", "delayed"),
    Step("reschedule", "delayed", "ready"),
    Step("reschedule", "ready", "delayed"),
    Step("reschedule", "ready", "ready"),
    Step("pop", "ready", "reserved"),
    Step("pop", "ready", "dead", "too late, or no attempt left"),
    Step("touch", "reserved", "reserved"),
    Step("finish", "reserved", "gone"),
    Step("finish", "reserved", "ready", "updated since"),
    Step("release", "reserved", "delayed", "after a back-off"),
    Step("release", "reserved", "ready", "at once"),
    Step("release", "reserved", "dead", "last attempt"),
    Step("time", "reserved", "ready", "its TTR is over"),
    Step("bury", "reserved", "dead"),
    Step("bury", "reserved", "ready", "updated since"),
    Step("cancel", "reserved", "gone"),
    Step("kick", "dead", "ready"),
    Step("pop", "dead", "gone", "after 30 days"),
    *(Step("delete", state, "gone") for state in STATES),
    *(Step("add", state, "delayed", "replaces it, with a delay") for state in STATES),
    *(Step("add", state, "ready", "replaces it") for state in STATES),
)

WIDTH, HEIGHT = 900, 400
BOXES = {"delayed": (190, 150), "ready": (420, 150), "reserved": (650, 150), "dead": (650, 310)}
"""The middle of each state's box."""
HALF_WIDTH, HALF_HEIGHT = 62, 24
STYLE = """
  .ground { fill: #ffffff } .box { fill: #eef0fc; stroke: #4150c8; stroke-width: 1.5 } .dead { fill: #fbeaea; stroke: #b3261e }
  text { font: 13px system-ui, sans-serif; fill: #1c1b29; text-anchor: middle } .state { font-weight: 600; font-size: 16px }
  .verb { font-family: ui-monospace, monospace } .small { font-size: 11.5px; fill: #5a586b }
  .step { fill: none; stroke: #5a586b; stroke-width: 1.4; marker-end: url(#head) }
  .tip { fill: #5a586b }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #16151d } .box { fill: #23254a; stroke: #8f9bff } .dead { fill: #40201f; stroke: #f2918b }
    text { fill: #ece9f5 } .small { fill: #b3b0c4 } .step { stroke: #b3b0c4 } .tip { fill: #b3b0c4 }
  }
"""


class Line(NamedTuple):
    """How the steps between two states are drawn: a path, and the place of their names."""

    path: str
    x: int
    y: int


LINES = {
    ("new", "delayed"): Line("M40,150 H126", 74, 122),
    ("new", "ready"): Line("M40,158 C70,268 300,280 392,177", 190, 264),
    ("delayed", "ready"): Line("M252,150 H356", 304, 122),
    ("ready", "delayed"): Line("M376,174 C350,206 270,206 234,176", 304, 214),
    ("delayed", "delayed"): Line("M160,126 C140,86 200,86 186,124", 172, 90),
    ("ready", "ready"): Line("M398,126 C378,86 438,86 424,124", 410, 90),
    ("ready", "reserved"): Line("M482,150 H586", 534, 168),
    ("reserved", "ready"): Line("M612,126 C590,48 490,48 462,124", 539, 94),
    ("reserved", "delayed"): Line("M640,126 C600,8 260,8 214,124", 424, 28),
    ("reserved", "reserved"): Line("M664,126 C654,86 714,86 694,124", 690, 90),
    ("reserved", "gone"): Line("M712,150 H806", 758, 127),
    ("reserved", "dead"): Line("M650,174 V284", 724, 226),
    ("ready", "dead"): Line("M444,174 C452,250 520,298 586,302", 551, 206),
    ("dead", "ready"): Line("M588,322 C480,330 424,270 422,177", 456, 330),
    ("dead", "gone"): Line("M712,310 C770,306 820,260 836,170", 816, 324),
}
"""A step between two other states needs a line here."""
FROM_EVERY_STATE = {
    cause + step.condition
    for step in STEPS
    for cause in [step.cause]
    if {one.before for one in STEPS if (one.cause, one.after, one.condition) == (cause, step.after, step.condition)}
    >= {*STATES}
}


def names(before: str, after: str) -> list[tuple[str, str]]:
    """The causes of the steps between two states, each with its condition."""
    return [
        ("" if step.cause == "time" else step.cause, step.condition)
        for step in STEPS
        if (step.before, step.after) == (before, after) and step.cause + step.condition not in FROM_EVERY_STATE
    ]


def life_cycle() -> str:
    """The picture as SVG, for light and dark pages."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(spoken())}">',
        f"<style>{STYLE}</style>",
        (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="tip" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
        ),
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
    ]
    pairs = dict.fromkeys((step.before, step.after) for step in STEPS if names(step.before, step.after))
    for before, after in pairs:
        line = LINES[before, after]
        labels = names(before, after)
        parts.append(f'<path class="step" d="{line.path}"/>')
        for row, (cause, condition) in enumerate(labels):
            shown = f'<tspan class="verb">{cause}</tspan>' if cause else ""
            told = f'<tspan class="small">{", " if cause and condition else ""}{escape(condition)}</tspan>'
            parts.append(f'<text x="{line.x}" y="{line.y + 15 * row}">{shown}{told}</text>')
    for state, (x, y) in BOXES.items():
        kind = "box dead" if state == "dead" else "box"
        corner = f'x="{x - HALF_WIDTH}" y="{y - HALF_HEIGHT}"'
        parts.append(f'<rect class="{kind}" {corner} width="{2 * HALF_WIDTH}" height="{2 * HALF_HEIGHT}" rx="8"/>')
        parts.append(f'<text class="state" x="{x}" y="{y + 6}">{state}</text>')
    parts.append('<text class="small" x="836" y="155">gone</text>')
    below = "; ".join(
        dict.fromkeys(
            f"{step.cause}{', ' if step.condition else ''}{step.condition}"
            for step in STEPS
            if step.cause + step.condition in FROM_EVERY_STATE and "delay" not in step.condition
        )
    )
    parts.append(
        f'<text class="small" x="450" y="382">From every state: {escape(below)}. Lines without the name of a verb are time alone: nothing is written.</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


def spoken() -> str:
    """The picture in words."""
    steps = [
        f"{step.cause}: {step.before} to {step.after}"
        for step in STEPS
        if step.cause + step.condition not in FROM_EVERY_STATE
    ]
    return "The life cycle of a job. " + "; ".join(steps)
