"""`make test-changed` runs every test that a change can reach, by the imports (tests/changed.py)."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import grimp
import pytest

from changed import BLOCKS_OF, EVERYTHING, ON_REQUEST, ROOT, Mentioned, Tree, app_of, changed_since, is_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT)


APPS = {
    "programs/beanstalk/server.py": "beanstalk/",
    "programs/cli/top.py": "programs/test_cli",
    "programs/dashboard/mount.py": "dashboard/",
    "programs/demo/screen.py": "programs/test_demo.py",
    "programs/dialects/mounts.py": "dialects/",
    "programs/service/app.py": "service/test_api",
    "programs/sqs/routes.py": "sqs/",
    "celery/relay.py": "frameworks/test_celery",
    "django/admin.py": "frameworks/test_django",
    "otel.py": "programs/test_otel.py",
}


@pytest.mark.parametrize(("file", "own"), APPS.items(), ids=list(APPS))
def test_an_app_reaches_its_own_tests_and_none_of_the_librarys(tree: Tree, file: str, own: str) -> None:
    found = tree.tests_of([f"src/tarry/{file}"])
    wanted = [test for test in tree.tests if test.startswith(f"tests/{own}")]
    assert wanted
    assert set(wanted) <= set(found)
    assert not [test for test in found if test.startswith(("tests/values/", "tests/watch/", "tests/scripts/"))]


@pytest.mark.parametrize(
    "file",
    [
        "src/tarry/values/keys.py", "src/tarry/worker/worker.py", "src/tarry/internal.py", "src/tarry/lua/topic/pop.lua",
        "src/tarry/programs/testing/plugin.py", "pyproject.toml", "Makefile", ".ci/packages", "tests/conftest.py", "tests/plugin_again.py",
        "tests/servers_that_are_gone.py", "not" + "named",
    ],
)  # fmt: skip
def test_the_library_and_what_no_rule_places_reach_everything(tree: Tree, file: str) -> None:
    assert tree.tests_of(["src/tarry/otel.py", file]) == EVERYTHING


@pytest.mark.parametrize(
    ("file", "reached", "others"),
    [
        ("docs/how-to/trace-jobs.md", "docs/test_pages.py", "sqs/test_limits.py"),
        ("README.md", "docs/test_site.py", "sqs/test_limits.py"),
        ("examples/lock_once.py", "locks/test_lock_once.py", "sqs/test_limits.py"),
        ("bench/rows/add.py", "bench/test_rows.py", "sqs/test_limits.py"),
        ("tools/rename.py", "names/test_rename.py", "sqs/test_limits.py"),
        ("docs/generate.py", "docs/test_reference.py", "sqs/test_limits.py"),
        (".github/workflows/ci.yml", "packaging/test_forge.py", "sqs/test_limits.py"),
        ("tests/values/test_names.py", "values/test_names.py", "values/test_durations.py"),
        ("tests/service/running_service.py", "story/test_add.py", "values/test_names.py"),
        ("tests/sqs/conftest.py", "sqs/test_limits.py", "values/test_names.py"),
        ("tests/beanstalk/protocol_cases.txt", "beanstalk/test_protocol_cases.py", "values/test_names.py"),
        ("tests/warm.py", "programs/test_cli.py", "values/test_names.py"),
    ],
)
def test_elsewhere_a_change_reaches_what_names_the_file(tree: Tree, file: str, reached: str, others: str) -> None:
    assert file in tree.files
    found = tree.tests_of([file])
    assert f"tests/{reached}" in found
    assert f"tests/{others}" not in found


def test_a_page_runs_its_own_blocks(tree: Tree) -> None:
    found = tree.tests_of(["docs/how-to/trace-jobs.md"])
    assert [test for test in found if "::" in test] == [BLOCKS_OF.format("docs/how-to/trace-jobs.md")]
    assert BLOCKS_OF.format("docs/how-to/trace-jobs.md") in tree.tests_of(["src/tarry/otel.py"])


def test_a_test_that_is_gone_reaches_none_of_its_neighbours(tree: Tree) -> None:
    assert not [test for test in tree.tests_of(["tests/values/test_" + "gone.py"]) if test.startswith("tests/values/")]


def test_every_import_counts_that_another_reader_finds(tree: Tree) -> None:
    """grimp, which import-linter reads with, finds what a module imports, in functions, too."""
    graph = grimp.build_graph("tarry", cache_dir=None)
    on_request = {
        (one, other)
        for one in graph.modules
        if one.startswith("tarry.programs.cli")
        for other in graph.find_modules_directly_imported_by(one)
        if any(other.startswith(f"tarry.{app.replace('/', '.')}") for app in ON_REQUEST)
    }
    assert {one for one, _ in on_request} == {"tarry.programs.cli.composition", "tarry.programs.cli.serve"}
    for one, other in on_request:
        graph.remove_import(importer=one, imported=other)
    upstream = {one: {one, *graph.find_upstream_modules(one)} for one in graph.modules}
    apps = {
        one: app_of(f"src/{one.replace('.', '/')}/") or app_of(f"src/{one.replace('.', '/')}.py")
        for one in graph.modules
    }
    reached = {
        app: set(tree.tests_of([f"src/tarry/{app}" if app.endswith(".py") else f"src/tarry/{app}/__init__.py"]))
        for app in filter(None, apps.values())
        if app != "programs/testing"
    }
    assert len(reached) == 11
    pairs = 0
    for test in tree.tests:
        for module in _imported(test):
            place = module if module in graph.modules else module.rpartition(".")[0]
            for app in {apps[one] for one in upstream.get(place, ())} & reached.keys():
                assert test in reached[app], (test, module, app)
                pairs += 1
    assert pairs > 300


def _imported(test: str) -> set[str]:
    """The modules of tarry that a test imports, and the helpers that it imports; read line by line."""
    found, waiting, seen = set[str](), [test], set[str]()
    while waiting:
        file = waiting.pop()
        if file in seen or not (ROOT / file).is_file():
            continue
        seen.add(file)
        text = (ROOT / file).read_text(encoding="utf-8").replace("(\n", "").replace(",\n", ",")
        for module, names in re.findall(r"^ *from ([\w.]+) import (.*)", text, re.M):
            full = [
                f"{module}.{name.split()[0]}" for name in names.split("#")[0].strip(" )").split(",") if name.strip()
            ]
            found |= set(full) if module.startswith("tarry") else set()
            waiting += [] if "conftest" in module else [f"tests/{one.replace('.', '/')}.py" for one in (module, *full)]
        found |= set(re.findall(r"^ *import (tarry[\w.]*)", text, re.M))
    return found


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("def test_it():\n    import tarry.celery\n", {"celery"}),
        ("def test_it(patch):\n    patch('tarry.django.admin.X')\n", {"django"}),
        ("def test_it(running_service): ...\n", {"programs/service", "programs/serving"}),
        ("def test_it(tarry_command):\n    tarry_command.run(['topics'])\n", {"programs/cli", "programs/serving"}),
        ("def test_it(tarry_command):\n    tarry_command.run(['demo'])\n", {"programs/cli", "programs/demo", "programs/serving"}),
        ("import subprocess, sys\nWORDS = [sys.executable, '-m', 'tarry', 'celery-relay']\n", {"programs/cli", "celery"}),
        ("import tarry.worker.worker\n", set()),
    ],
)  # fmt: skip
def test_what_a_test_has_to_do_with(tree: Tree, text: str, reached: set[str]) -> None:
    planted = "tests/values/test_planted.py"
    tree._mentioned[planted] = Mentioned().walk(ast.parse(text))
    tree._reached.pop(planted, None)
    found = {app for app in map(app_of, tree.reached_from(planted)) if app}
    assert found - {"programs/serving"} == reached - {"programs/serving"}


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("(ROOT / 'src').rglob('*')", True),
        ("(ROOT / 'src' / 'tarry').rglob('*')", True),
        ("(ROOT / name / 'src' / name).rglob('*')", True),
        ("(ROOT / 'src/tarry/programs').rglob('*')", True),
        ("Path('src/tarry/programs/sqs/queues.py').read_text()", True),
        ("(Path('src') / 'tarry' / 'lua').rglob('*')", True),  # all of src is named, too
        ("Path(f'src/tarry/{app}').rglob('*')", True),
        ("ROOT.glob('src/**/*.py')", True),
        ("Path(tarry.__path__[0]).rglob('*')", True),
        ("(ROOT / 'src' / 'tarry' / 'lua').rglob('*')", False),
        ("(Path(tarry.__file__).parent / 'lua').rglob('*')", False),
        ("Path('src/tarry/programs/beanstalk/server.py').read_text()", False),
        ("re.findall('(?:src|href)=', page.read_text())", False),
        ("SOURCE = HERE / 'src' / 'tarry'", False),  # nothing is read
    ],
)
def test_who_looks_at_the_source_of_an_app(text: str, looks: bool) -> None:
    assert any(is_of("programs/sqs", place) for place in Mentioned().walk(ast.parse(text)).looked_at) is looks


def test_an_app_does_not_reach_who_looks_at_other_source(tree: Tree) -> None:
    found = {*tree.tests_of(["src/tarry/otel.py"])}
    assert {"tests/names/test_names.py", "tests/names/test_border.py", "tests/docs/test_prose.py"} <= found
    assert found.isdisjoint(
        {"tests/vectors/test_vectors.py", "tests/docs/test_contract.py", "tests/docs/test_chart.py"}
    )
    assert "tests/dashboard/test_texts.py" in tree.tests_of(["src/tarry/programs/serving/forecast.py"])


def test_serve_reaches_what_it_mounts_on_request_if_it_is_asked(tree: Tree) -> None:
    def apps(*words: str) -> set[str | None]:
        text = f"def test_it(tarry_command):\n    tarry_command.run({list(words)})\n"
        tree._mentioned["tests/values/test_planted.py"] = Mentioned().walk(ast.parse(text))
        tree._reached.pop("tests/values/test_planted.py", None)
        return set(map(app_of, tree.reached_from("tests/values/test_planted.py")))

    served = apps("serve")
    assert {"programs/cli", "programs/service", "programs/dashboard", "programs/dialects"} <= served
    assert served.isdisjoint(ON_REQUEST)
    assert "programs/sqs" in apps("serve", "--dialect=sqs")
    assert "programs/beanstalk" in apps("serve", "--beanstalk", "127.0.0.1:0")


def test_everything_is_what_make_test_runs() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["tool"]["pytest"]["ini_options"]["testpaths"] == EVERYTHING
    recipes = re.findall(r"^(test|test-changed): .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert [name for name, recipe in recipes if "$(SUITE)" in recipe] == ["test", "test-changed"]


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., None]:
    def call(*words: str) -> None:
        own = ("-c", "user.name=tarry", "-c", "user.email=tarry@example.com", "-c", "init.defaultBranch=main")
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    return call


def test_what_changed_is_asked_from_git(tmp_path: Path, git: Callable[..., None]) -> None:
    for name in ("moved", "changed", "deleted", "left"):
        (tmp_path / name).write_text(name * 9)
    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    git("checkout", "-b", "branch")
    git("mv", "moved", "new place")
    git("rm", "deleted")
    git("commit", "-m", "two")
    (tmp_path / "changed").write_text("!")
    (tmp_path / "unknown").write_text("!")
    assert changed_since(tmp_path, "main") == {"moved", "new place", "changed", "deleted", "unknown"}
    git("checkout", "main", "--force")
    git("commit", "--allow-empty", "-m", "main goes on")
    git("checkout", "branch")
    assert changed_since(tmp_path, "main") == {"moved", "new place", "deleted", "unknown"}
