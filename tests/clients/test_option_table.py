"""tools/options.py writes an option of the table into every way to add jobs; `make lint` runs it with ``--check``."""

from __future__ import annotations

import ast
import struct
from pathlib import Path
from typing import Any

import pytest

from tarry import BodyError
from tarry.verbs.jobs import records
from tools import options
from tools.option_table import OPTIONS, Option, Stored

SOURCE = Path(__file__).resolve().parents[2] / options.SOURCE
PLANTED = Option(
    name="planted",
    kind="str | None",
    wire="Planted",
    flag="str | None",
    stored=Stored(
        field="planted",
        kind="str | None",
        encode="planted_of",
        decode="head.planted",
        flag=2**15,
        format="text",
        shown="It grows.",
        shown_of_schedule="It grows again.",
    ),
)
WITH_ONE_MORE = (*OPTIONS[:-1], PLANTED, OPTIONS[-1])


def written(texts: dict[str, str], *dropped: str) -> dict[str, str]:
    found = dict(texts)
    for place in options.option_places.places():
        found[place.file] = options.written(place, found[place.file], frozenset(dropped))
    return found


@pytest.mark.slow
def test_a_row_is_written_into_every_way_to_add_jobs_and_taken_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {place.file: (SOURCE / place.file).read_text("utf-8") for place in options.option_places.places()}
    monkeypatch.setattr(options, "OPTIONS", WITH_ONE_MORE)
    longer = written(before)
    for place in options.option_places.places():
        _, text = place.write(PLANTED) or ("", "")
        assert text in longer[place.file], place
    names = ("clients/awaited/topic.py", "worker/tasks.py", "wire/job_models.py", "programs/cli/job_commands.py")
    assert all("planted" in longer[name] for name in names)
    monkeypatch.setattr(options, "OPTIONS", OPTIONS)
    after = written(longer, "planted")
    assert {file: ast.dump(ast.parse(text)) for file, text in after.items()} == {
        file: ast.dump(ast.parse(text)) for file, text in before.items()
    }


def test_what_is_no_option_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "def add(a, *, own=1,  # mine\n        delay: int = 0, last=3):\n    JobOptions(delay=delay, last=last)\n"
    row = Option(name="delay", kind="str", default="''", wire="", flag="")
    monkeypatch.setattr(options, "OPTIONS", (row, PLANTED))
    for place in options.option_places.signature("m.py", "add", "call"):
        dropped = () if place.find is options.option_places.parameters else ("last",)
        source = options.written(place, source, frozenset(dropped))
    assert source == (
        "def add(a, *, own=1,  # mine\n        delay: str = '', planted: str | None = None, last=3):\n"
        "    JobOptions(delay=delay, planted=planted)\n"
    )


def test_python_and_lua_read_the_same_of_further_fields(monkeypatch: pytest.MonkeyPatch, server: Any) -> None:
    monkeypatch.setattr(options, "OPTIONS", WITH_ONE_MORE)
    fields = (*records._FURTHER_FIELDS, records._FurtherField("planted", 2**15, records._Text()))
    monkeypatch.setattr(records, "_FURTHER_FIELDS", fields)
    read = (*fields, *(one for one in records._READ if one not in fields))
    monkeypatch.setattr(records, "_READ", read)
    monkeypatch.setattr(records, "_KNOWN_FLAGS", sum(one.flag for one in read))
    lua = (SOURCE / "lua" / "lib" / "job.lua").read_text("utf-8") + options.lua(
        (SOURCE / "lua" / "lib" / "flags.lua").read_text("utf-8")
    )
    for text in ("", "ä" * 100):
        further, packed = records._pack_further((7, *[None] * (len(fields) - 2), text))
        head = bytes([32 + 64 + 16 + 128]) + struct.pack("<HII", further, 5, 3) + packed + b'\x09\0{"a":"b"}'
        record = bytes(7) + records.change_head(head, 0, b"nonce!") + b"body"
        nonce, ttr_ms, attempts, more, headers, body = records._fields(record, record[7])
        assert (nonce, ttr_ms, attempts, more) == (b"nonce!", 5, 3, {"max_lateness_us": 7, "planted": text})
        assert (record[headers:body], record[body:]) == (b'{"a":"b"}', b"body")
        read = server.eval(
            lua + "\nlocal found = {read_head(ARGV[1])}\nfound[#found + 1] = is_known(found[2])\nreturn found",
            0,
            record,
        )
        assert read == [record[7], further, 5, 3, 7, headers - 2, headers, body, 1]
        with pytest.raises(BodyError):
            records._fields(record[: headers - 3], record[7])


def test_a_file_that_differs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (SOURCE / "lua" / "lib" / "flags.lua").read_text("utf-8")
    monkeypatch.setattr("sys.argv", ["options.py", "--check"])
    monkeypatch.setattr(options, "made", lambda _: {options.FLAGS: text})
    options.main()
    monkeypatch.setattr(options, "made", lambda _: {options.FLAGS: text + "-- planted\n"})
    with pytest.raises(SystemExit, match=f"not as tools/option_table.py says: {options.FLAGS}. Run `make blocking`"):
        options.main()
