"""What the public forge runs are targets of the Makefile, on the Pythons that the package names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

import interface_of_python
from doc_pages import ROOT
from names.test_version_ranges import ENDS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_are_there(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    commands = [step["run"] for job in jobs for step in job.get("steps", ()) if "run" in step]
    made = [
        re.sub(r'\S+=("[^"]*"|\$\{\{.*?\}\}|\S*)', "", command) for command in commands if command.startswith("make ")
    ]
    used = {target for command in made for target in command.split()[1:]}
    assert used or workflow.stem in {"codeql", "scorecard"}
    assert used <= TARGETS


def test_the_long_tests_run_every_night_and_before_a_release() -> None:
    nightly, release = (
        yaml.safe_load((WORKFLOWS[0].parent / name).read_text()) for name in ("nightly.yml", "release.yml")
    )
    when = nightly[True]  # YAML reads `on` as a truth value
    assert {"schedule", "workflow_call"} <= when.keys()
    [job] = nightly["jobs"].values()
    assert job["steps"][-1]["run"].startswith("make test-long")
    [(name, _)] = [(name, job) for name, job in release["jobs"].items() if job.get("uses", "").endswith("/nightly.yml")]
    assert release["jobs"]["build"]["needs"] == name
    assert {job["needs"] for job in release["jobs"].values() if "needs" in job} == {name, "build"}


def test_the_long_tests_run_beside_both_type_checkers_on_everything() -> None:
    """`make test` asks basedpyright, which has no cache, about what users import alone."""
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^test-long:.*\n.* \$\(call BESIDE,types\) -m long$", text, re.M)
    assert re.search(r"^types: mypy .*\n\t@\$\(BIN\)/basedpyright\n\n", text, re.M)
    [places] = re.findall(r"^PUBLIC := (.*)", text, re.M)
    read = {path for place in places.split() for path in ROOT.glob(place)}
    assert {
        ROOT / "tests" / "typing",
        *(Path(module.__file__ or "") for module in interface_of_python.public_modules()),
    } <= read


def test_actions_are_pinned_by_hash_and_say_their_version() -> None:
    """zizmor and actionlint look for more: docs/maintainers/release.md."""
    used = [
        line for path in WORKFLOWS for line in path.read_text().splitlines() if "uses: " in line and "./" not in line
    ]
    assert len(used) > 10
    assert [line for line in used if not re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_an_action_has_one_version_everywhere() -> None:
    used = {match for path in WORKFLOWS for match in re.findall(r"uses: ([\w-]+/[\w-]+)\S*@(\S+)", path.read_text())}
    assert len(used) == len({name for name, _ in used})


def test_every_python_that_the_package_names_is_tried() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tried = set(re.findall(r'"(3\.\d+)"', text)) | set(re.findall(r"python:(3\.\d+)-", text))
    package = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", package)
    assert tried == set(named)
    oldest = named[0]
    assert f'requires-python = ">={oldest}"' in package
    assert re.findall(r'^(?:python_version|pythonVersion) = "(.*)"', package, re.M) == [
        oldest,
        oldest,
    ]  # of both type checkers


def test_the_oldest_version_of_each_dependency_is_tried() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    assert jobs["oldest"]["strategy"]["matrix"]["end"] == [*ENDS]


def test_hooks_and_the_devcontainer_use_what_is_there() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repo["hooks"]:
        words = hook["entry"].split()
        assert words[0].startswith(".venv/bin/")
        assert all((ROOT / word).exists() for word in words[1:] if "/" in word)
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert set(re.findall(r"make ([a-z]+)", container["postCreateCommand"])) <= TARGETS
