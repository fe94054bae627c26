"""The contract of the scripts, made from the headers of the Lua files and from what the verbs declare."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tarry.verbs
from contract_words import ARGUMENTS, IN_SCRIPT
from tarry.core.scripts import Script

LUA = Path(__file__).resolve().parent.parent / "src" / "tarry" / "lua"
KEYS = re.compile(r"^local ([\w, ]+) = unpack\(KEYS\)$", re.M)
ARGS = re.compile(r"^local ([\w, ]+) = unpack\(ARGV\)$", re.M)
ITEM = re.compile(r"^-- each: ([\w, ]+) = unpack\(ARGV, i", re.M)
ERROR = re.compile(r"error_reply\('([A-Z]+ [^']*)'(?: \.\. ([\w.]+))?")
CALL = re.compile(r"redis\.p?call\((?:[^',]* and '([A-Z]+)' or )?'([A-Z]+)', ([\w\[\]]+)([\w, ]*)")
COMMENT = re.compile(r"--[^\n]*")
FUNCTION = re.compile(r"^local function (\w+)\([^\n]*\n(?:(?: [^\n]*)?\n)*?end\n", re.M)
WORD = re.compile(r"\w+")
READING = {
    "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HLEN", "HMGET", "HPTTL", "HRANDFIELD", "HSCAN", "HSTRLEN", "INFO", "LINDEX", "LLEN", "LPOS", "LRANGE",
    "PTTL", "PUBSUB", "STRLEN", "TIME", "TYPE", "ZCARD", "ZCOUNT", "ZLEXCOUNT", "ZMSCORE", "ZRANGE", "ZRANGEBYSCORE", "ZRANK", "ZSCAN", "ZSCORE",
}  # fmt: skip
"""Commands that change nothing."""
PUBLISHING = {"PUBLISH", "SPUBLISH"}
OF_MANY_KEYS = {"DEL", "MSET", "UNLINK"}
OPENING = """\
# The contract of the scripts

Jobs, schedules, locks, guarded queues and shared maps change only by the Lua scripts in this folder. A program in another language that calls
them does what tarry does. This page says how, and what each takes, answers and writes. `examples/node/tarry.mjs` is such a program: it adds,
pops and finishes.

## How a script is called

- **Its text** is the file with the shared parts in it: a line `-- include NAME …` is replaced by `lib/NAME.lua` for each name, in order, and
  `FOLDER/NAME` is `FOLDER/lib/NAME.lua`. Shared parts include others in the same way. Where a line stands inside a block, so do the parts.
  Replace the line alone; several parts are joined by a newline, and every file keeps its last newline. Call the script by its SHA-1
  (`EVALSHA`), and load it after `NOSCRIPT`.
- **Keys** come in the order given here. All keys of a call are in one slot. `docs/reference/keys.md` says what each has, and its name:
  `tarry:{NAMESPACE/TOPIC}:due`.
- **Arguments** come in the order given here: first the clock, then the script's, then those of each item, item after item.
- **The clock** is empty: the server's counts. Only a server that was started for tests takes another, as a moment; any other answers
  `CLOCK`.
- **A moment** is microseconds since 1970 in decimal digits; **µs** and **ms** are spans, in digits; **a number** is in digits; **a flag** is
  `1` or `0`; **text** is UTF-8; **bytes** are any. No argument is ever left out: what is not given is empty.
- **An item** is what is repeated, once for each job. `is_replay` is `1` if the caller sends a call again because it has lost the answer. Then
  what the first call did is answered as done.
- **Answers** are integers, bytes, nothing, or lists of them. A moment is an integer, below 2^53. "For each" means a list as long as that of the
  items, in their order.
- **Refusals.** An item that is refused has the reason as its answer, and the others are done. An error (`BEYOND …`) refuses the whole call; its
  first word is fixed, the rest is for people. Nothing was written then. `WRONGTYPE` says that the topic has partitions: ask
  `partitions/find`. `OOM` says that the memory is full; a script that only frees works all the same.
- **What is written** are the commands that can change a key; `a key` is one of several, chosen by an argument. A script that changes nothing
  can be called by `EVALSHA_RO`.

## What may change

Until 1.0 keys, arguments and answers of a script may change with any version: take the scripts, this page and the vectors from the same version
as the Python that runs beside. What is *stored* follows decision 0023 from the first tag on: two neighbouring versions may work on the
same data. A record may get further flags; a reader that does not know one leaves the record as it is.
"""

VECTORS = """\
## The vectors

The files in `vectors` beside this page have calls of every script, a line of JSON for each. Every string in it, names of keys included, stands for bytes:
each character is one byte, U+0000 to U+00FF. Ids, moments and random words are given, so a call comes out the same each time. It needs an empty
server that was started for tests (`tarry.testing.start_server`).

| field | what |
|---|---|
| `name` | what it is about |
| `before` | the keys that are there before the call |
| `subscribed` | channels to which another connection is subscribed before the call, by `SUBSCRIBE` and by `SSUBSCRIBE`; often left out |
| `script` | its name, without `.lua` |
| `keys`, `args` | of the call; the first argument is the clock |
| `reply` | an integer, a string, `null`, or a list; an error is `{"error": "…"}`, without the ` script: …` that a server adds |
| `after` | all keys that are there after the call |
| `published` | if `subscribed` is there: for each message that the other connection gets the command, the channel and the message; sorted by channel |

A key is `{"hash": {field: value}}`, `{"zset": {member: score}}`, `{"list": [value, …]}` or `{"string": value}`; a score is the text that the server
answers. If the key has an expiry, `"expires"` has its seconds, as `TTL` answers them: afterwards only of the call's own keys. In scripts
whose names begin with `native_` fields of the first key have expiries, too: `"field_expires"` has the seconds of each, as `HTTL` answers them. Those
scripts need Valkey 9 or Redis 7.4. Make the keys, call, and ask for the seconds in one transaction, in which time stands still.
Where a script stores the server's own id, the `master_replid` of `INFO replication`, a vector has 40 zeros: put the id in their place. A vector's keys
are all named like those of the topic `t` in the namespace `vectors`; a script of several topics gets two, and the second one's begin with `u:`.
`node examples/node/tarry.mjs vectors URL` runs them all.
"""


@cache
def scripts() -> dict[str, Script]:
    """All that the verbs declare, by name."""
    found: dict[str, Script] = {}
    for module in pkgutil.walk_packages(tarry.verbs.__path__, "tarry.verbs."):
        for value in vars(importlib.import_module(module.name)).values():
            script = getattr(value, "script", value)
            if isinstance(script, Script):
                found[script.name] = script
    return dict(sorted(found.items()))


def header(text: str) -> str:
    """The comment that begins a file, without declarations and includes."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("--"):
            lines.append(line[2:].removeprefix(" "))
        elif not line.startswith("local ") or "unpack(" not in line:
            break
    kept = [line for line in lines if not line.startswith(("each: ", "include "))]
    return "\n".join(kept).strip("\n")


def names(pattern: re.Pattern[str], text: str) -> list[str]:
    """The declared names; none if the script has no such line."""
    found = pattern.search(text)
    return found[1].split(", ") if found else []


def meaning(script: str, argument: str) -> str:
    """What an argument of a script is."""
    return IN_SCRIPT.get((script, argument)) or ARGUMENTS[argument]


def contract_page() -> str:
    """The page."""
    folders = dict.fromkeys(name.rpartition("/")[0] for name in scripts())
    parts = [OPENING, VECTORS]
    for folder in folders:
        parts.append(f"## `{folder}`\n")
        parts += [_section(name) for name in scripts() if name.rpartition("/")[0] == folder]
    parts.append("## Shared parts\n")
    parts.append("What is stored, and in which form, is told at the beginning of these.\n")
    for path in sorted(LUA.rglob("lib/*.lua")):
        told = header(path.read_text(encoding="utf-8"))
        if told:
            parts.append(f"### `{path.relative_to(LUA).as_posix()}`\n\n{_quoted(told)}")
    return "\n".join(parts)


def _section(name: str) -> str:
    text = (LUA / f"{name}.lua").read_text(encoding="utf-8")
    told = scripts()[name]
    rows = [f"### `{name}`\n", _quoted(header(text))]
    rows.append(f"- keys: {_listed(names(KEYS, text)) or 'of several topics, as above'}")
    rows.append("- arguments: clock" + "".join(f"\n  - `{one}`: {meaning(name, one)}" for one in names(ARGS, text)[1:]))
    if item := names(ITEM, text):
        rows.append("- each item:" + "".join(f"\n  - `{one}`: {meaning(name, one)}" for one in item))
    source = told.source.decode()
    written = writes(source)
    rows.append(f"- errors: {_listed(dict.fromkeys(errors(source))) or 'none of its own'}")
    each = "; ".join(f"`{key}` {', '.join(commands)}" for key, commands in written.items())
    rows.append(f"- writes: {each or 'nothing'}{' (read-only)' if told.read_only else ''}")
    if published := [key for command, key in _calls(source) if command in PUBLISHING]:
        rows.append(f"- publishes: {_listed(dict.fromkeys(published))}")
    return "\n".join(rows) + "\n"


def _quoted(text: str) -> str:
    return f"```text\n{text}\n```\n"


def _listed(found: object) -> str:
    return ", ".join(f"`{one}`" for one in found) if isinstance(found, (list, dict)) else ""


def errors(source: str) -> Iterator[str]:
    """What a script can refuse, as it begins."""
    for said, more in ERROR.findall(source):
        if not said.startswith("CLOCK "):  # every script's, and told above
            yield said.strip() + (" …" if more else "")


def writes(source: str) -> dict[str, list[str]]:
    """The commands that can change each key of a script."""
    by_key: dict[str, dict[str, None]] = {}
    for command, key in _calls(source):
        if command not in READING | PUBLISHING:
            by_key.setdefault(key, {})[command] = None
    return {key: list(commands) for key, commands in by_key.items()}


def _calls(source: str) -> Iterator[tuple[str, str]]:
    """Each command with its key, in functions that the script calls."""
    keys = names(KEYS, source)
    for one, other, key, more in CALL.findall(_called(source)):
        for command in filter(None, (one, other)):
            yield command, key if key in keys or not keys else "a key"
            if command in OF_MANY_KEYS:
                yield from ((command, further) for further in more.split(", ") if further in keys)


@cache
def _called(source: str) -> str:
    """Without comments, and without functions that nobody calls."""
    text = COMMENT.sub("", source)
    while True:
        times = Counter(WORD.findall(text))
        unused = [found[0] for found in FUNCTION.finditer(text) if times[found[1]] == 1]
        if not unused:
            return text
        for one in unused:
            text = text.replace(one, "")
