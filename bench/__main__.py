"""``python -m bench [ROW …]``: measures, prints the table, writes it to a page."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path

from bench import table
from bench.harness import Bench, Effort, private_server
from bench.results import Result
from bench.rows import ROWS


def measure(names: list[str], effort: Effort, repeat: int) -> list[Result]:
    results: list[Result] = []
    for name in names:
        began = time.monotonic()
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        with private_server() as server:
            try:
                results += ROWS[name](Bench(server, effort, repeat))
            except Exception:  # noqa: BLE001  # go on with the other rows
                traceback.print_exc()
        print(f" {time.monotonic() - began:.1f} s", file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser("python -m bench", description="Measures tarry and its yardsticks.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"which rows; all by default: {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="a run of a minute: smaller sizes, fewer repeats")
    parser.add_argument("--repeat", type=int, help="how many turns each side has (5; quick: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every reading to this file")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PAGE",
        help="replace the table in a Markdown page, and the readings beside it (.json)",
    )
    given = parser.parse_args()
    if unknown := [name for name in given.rows if name not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    effort: Effort = "quick" if given.quick else "full"
    repeat = given.repeat or (3 if given.quick else 5)
    about = table.machine(effort, repeat)
    results = measure(given.rows or list(ROWS), effort, repeat)
    table.show(results)
    readings = json.dumps(table.as_data(results, about), indent=1, ensure_ascii=False) + "\n"
    if given.json:
        given.json.write_text(readings, "utf-8")
    if given.write:
        table.write(given.write, table.BEGIN, table.END, table.as_markdown(results, about))
        given.write.with_suffix(".json").write_text(readings, "utf-8")


if __name__ == "__main__":
    main()
