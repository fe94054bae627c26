"""The command line, in this process: in one namespace of one server."""

from __future__ import annotations

import json
import logging
from typing import Any

from cli_in_process import COMMAND, call_tarry


class Cli:
    """The command line, in one namespace of one server; and which of its verbs were said."""

    def __init__(self, url: str, namespace: str) -> None:
        self.url = url
        self.namespace = namespace
        self.said: set[str] = set()

    def __call__(self, *words: str, stdin: str | None = None, code: int = 0) -> list[Any]:
        self.said.add(next(verb for verb in (" ".join(words[:2]), words[0]) if verb in VERBS))
        return [json.loads(line) for line in self.shown(*words, "--json", stdin=stdin, code=code).splitlines()]

    def shown(self, *words: str, stdin: str | None = None, code: int = 0) -> str:
        """For people."""
        place = {"TARRY_URL": self.url, "TARRY_NAMESPACE": self.namespace, "TARRY_LOG": "ERROR"}
        loggers = [logging.getLogger(name) for name in ("tarry", "tarry.patience")]
        before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
        try:
            done = call_tarry(words, stdin, **place)
        finally:
            for logger, logger.handlers, level, logger.propagate in before:
                logger.setLevel(level)
        if done.exit_code != code:
            raise AssertionError((words, done.output)) from done.exception
        return done.stdout


def _verbs(group: Any, before: str = "") -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        found |= _verbs(command, f"{before}{name} ") if hasattr(command, "commands") else {before + name}
    return found


VERBS = _verbs(COMMAND)
