"""basedpyright's language server, which knows what each name means: it renames, and it says what is not typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import unquote, urlsplit

MEMORY_MB = 3000
CONFIG = "pyrightconfig.json"
"""It goes before `pyproject.toml`, which shows the server the public interface only. It is there while the server runs."""


class Edit(NamedTuple):
    """A range within one line that is replaced. Columns count as in a Python string."""

    line: int
    start: int
    end: int
    text: str


class LanguageServer:
    """The server, with every file below ``folders`` in view. Use it in a ``with`` block."""

    def __init__(self, root: Path, folders: Iterable[str], search: Iterable[str]) -> None:
        self._root = root
        self._config = {
            "include": sorted(folders),
            "exclude": ["**/__pycache__"],
            "extraPaths": list(search),
            "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
            "typeCheckingMode": "off",
        }
        self._asked = 0

    def __enter__(self) -> Self:
        if (self._root / CONFIG).exists():
            raise SystemExit(f"{CONFIG} exists: it is of a run that was killed, or another one runs. Remove it.")
        (self._root / CONFIG).write_text(json.dumps(self._config), encoding="utf-8")
        try:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("basedpyright-langserver"), "--stdio"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._root,
                env=os.environ | {"NODE_OPTIONS": f"--max-old-space-size={MEMORY_MB}"},
            )
            watch = {"didChangeWatchedFiles": {"dynamicRegistration": True}, "configuration": True}
            folder = {"uri": self._root.as_uri(), "name": self._root.name}
            start = {"processId": os.getpid(), "rootUri": folder["uri"], "workspaceFolders": [folder]}
            self._ask("initialize", start | {"capabilities": {"workspace": watch | {"workspaceFolders": True}}})
            self._tell("initialized", {})
            self._await_files()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        (self._root / CONFIG).unlink(missing_ok=True)
        if hasattr(self, "_process"):
            self._process.kill()
            self._process.communicate()

    def rename(self, path: str, line: int, column: int, new: str) -> dict[str, set[Edit]]:
        """By file: what has to be replaced when the name at this place becomes ``new``."""
        answer = self._ask("textDocument/rename", self._place(path, line, column) | {"newName": new}) or {}
        changes = dict(answer.get("changes") or {})
        changes |= {one["textDocument"]["uri"]: one["edits"] for one in answer.get("documentChanges") or ()}
        return {file: self._edits(file, edits) for uri, edits in changes.items() for file in [self._file(uri)]}

    def is_known(self, path: str, line: int, column: int) -> bool:
        """Whether the server knows where the name at this place is defined."""
        found = self._ask("textDocument/definition", self._place(path, line, column)) or []
        for target in found:  # for an argument without a type the server names the function that is called
            start, end = (target["range"][which]["character"] for which in ("start", "end"))
            text = Path(unquote(urlsplit(target["uri"]).path)).read_text(encoding="utf-8").split("\n")
            name = text[target["range"]["start"]["line"]].encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")
            if name and re.match(rf"{re.escape(name)}\b", self._lines(path)[line][column:]):
                return True
        return False

    def changed(self, paths: Iterable[str]) -> None:
        """These files are different on the disk now."""
        changes = [{"uri": (self._root / path).as_uri(), "type": 2} for path in paths]
        self._tell("workspace/didChangeWatchedFiles", {"changes": changes})

    def _place(self, path: str, line: int, column: int) -> dict[str, Any]:
        text = self._lines(path)[line]
        position = {"line": line, "character": len(text[:column].encode("utf-16-le")) // 2}
        return {"textDocument": {"uri": (self._root / path).as_uri()}, "position": position}

    def _edits(self, path: str, edits: list[dict[str, Any]]) -> set[Edit]:
        lines = self._lines(path)
        found = set[Edit]()
        for edit in edits:
            (start, end), text = (edit["range"][which] for which in ("start", "end")), edit["newText"]
            line = lines[start["line"]].encode("utf-16-le")
            first, last = (len(line[: 2 * one["character"]].decode("utf-16-le")) for one in (start, end))
            found.add(Edit(start["line"], first, last, text))
        return found

    def _lines(self, path: str) -> list[str]:
        return (self._root / path).read_text(encoding="utf-8").split("\n")

    def _file(self, uri: str) -> str:
        return str(Path(unquote(urlsplit(uri).path)).relative_to(self._root))

    def _ask(self, method: str, params: object) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:  # the server asks
                self._answer(message)
            elif message.get("id") == self._asked:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']['message']}")
                return message["result"]

    def _await_files(self) -> None:
        """Until the server has looked for the files: before that it answers that there is nothing to rename."""
        while True:
            message = self._receive()
            if "id" in message:
                self._answer(message)
            elif re.match(r"Found \d+|No source files", message.get("params", {}).get("message", "")):
                return

    def _answer(self, message: dict[str, Any]) -> None:
        """Answers what the server asks."""
        items = message["params"].get("items") if message["method"] == "workspace/configuration" else None
        self._send({"id": message["id"], "result": None if items is None else [self._setting(one) for one in items]})

    def _setting(self, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("section") == "python":
            return {"pythonPath": sys.executable}
        return {"diagnosticMode": "openFilesOnly"} if str(item.get("section")).endswith("analysis") else {}

    def _tell(self, method: str, params: object) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if not length:
            raise SystemExit("the language server ended")
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message
