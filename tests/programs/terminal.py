"""The command line in a terminal."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

Cli = Callable[..., subprocess.CompletedProcess[str]]
Answers = Callable[..., list[Any]]
