"""The Helm chart is made from the manifests: with its defaults it is kubernetes.yaml, and KEDA's part is optional. No Helm reads it."""

from __future__ import annotations

import re
from typing import Any

import yaml

from doc_pages import ROOT
from tools import chart

DEPLOY = ROOT / "examples" / "deploy"
FILES = {name: (DEPLOY / "chart" / name).read_text(encoding="utf-8") for name in chart.files()}


def defaults() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(FILES["values.yaml"])
    return values


def objects(text: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(text) if one]


def render(name: str, values: dict[str, Any]) -> list[Any]:
    text = chart.rendered(FILES[name], values)
    assert "{{" not in text
    return objects(text)


def test_the_chart_is_made_from_the_manifests() -> None:
    assert chart.files() == FILES


def test_with_its_defaults_it_is_the_manifests() -> None:
    assert render("templates/tarry.yaml", defaults()) == objects((DEPLOY / "kubernetes.yaml").read_text())
    assert render("templates/keda.yaml", defaults()) == []


def test_with_keda_it_has_the_first_of_its_objects() -> None:
    values = defaults()
    values["keda"]["enabled"] = True
    assert render("templates/keda.yaml", values) == objects((DEPLOY / "keda.yaml").read_text())[:1]


def test_every_value_changes_what_is_rendered() -> None:
    usual = render("templates/tarry.yaml", defaults())
    for name in chart.VALUES:
        values = defaults()
        first, _, rest = name.rpartition(".")
        (values[first] if first else values)[rest] = 7
        assert render("templates/tarry.yaml", values) != usual, name
    named = {*chart.VALUES, *chart.KEDA, "keda.enabled"}
    used = {name for text in FILES.values() for name in re.findall(r"\.Values\.([\w.]+)", text)}
    assert used == named


def test_templates_have_only_what_the_test_can_render() -> None:
    for name in ("templates/tarry.yaml", "templates/keda.yaml"):
        marks = set(re.findall(r"\{\{.*?\}\}", FILES[name]))
        assert all(
            re.fullmatch(r"\{\{ \.Values\.[\w.]+ \}\}|\{\{- if \.Values\.[\w.]+ \}\}|\{\{- end \}\}", mark)
            for mark in marks
        )
