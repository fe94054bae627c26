"""Makes the Helm chart, examples/deploy/chart, from kubernetes.yaml and keda.yaml: `.venv/bin/python tools/chart.py`.

Each value of ``VALUES`` is a text of the manifests that becomes a placeholder, and the text is the value's default: so the chart with its
defaults is kubernetes.yaml. KEDA's objects are there if `keda.enabled` is set. ``rendered`` fills in placeholders and conditions, which is
all that these templates have of Helm's language; no Helm has read the chart.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

DEPLOY = Path(__file__).resolve().parent.parent / "examples" / "deploy"
VERSION = Path(__file__).resolve().parent.parent / "src" / "tarry" / "values" / "version.py"
VALUES: dict[str, tuple[str, str, str]] = {
    "service.replicas": ("2", r"name: tarry-service\n.*?replicas: (2)", "of the service"),
    "service.image": ("registry.example/tarry:1.0.0rc1", r"image: (registry\.example/tarry:\S+)", "of the service"),
    "service.drain": ("10s", r"--drain, (10s)", "how long it answers 503 before it ends"),
    "service.memory": ("256Mi", r"cpu: 100m.*?limits: \{ memory: (256Mi)", "at most"),
    "service.minAvailable": ("1", r"minAvailable: (1)", "while nodes are drained"),
    "worker.replicas": ("2", r"name: shop-worker\n.*?replicas: (2)", "of the worker; with KEDA these are the first"),
    "worker.image": (
        "registry.example/shop-worker:1",
        r"image: (registry\.example/shop-worker:1)",
        "with your handlers",
    ),
    "worker.app": ("shop:worker", r'"(shop:worker)"', "module and name of the worker"),
    "worker.processes": ("2", r'--processes, "(2)"', "in each pod"),
    "worker.memory": ("512Mi", r'cpu: "1".*?limits: \{ memory: (512Mi)', "at most"),
    "worker.grace": (
        "30",
        r"SIGTERM: no new jobs.*?terminationGracePeriodSeconds: (30)",
        "seconds: ten more than Worker(grace=…)",
    ),
    "secret": ("tarry", r"secretKeyRef: \{ name: (tarry),", "the secret whose `url` is that of the server"),
}
KEDA: dict[str, tuple[str, str, str]] = {
    "keda.prometheus": ("http://prometheus:9090", r"serverAddress: (http://prometheus:9090)", "where the metrics are"),
    "keda.min": ("2", r"minReplicaCount: (2)", "workers"),
    "keda.max": ("20", r"maxReplicaCount: (20)", "workers"),
    "keda.threshold": ("600", r'threshold: "(600)"', "jobs for each pod"),
}
PLACEHOLDER = re.compile(r"\{\{ \.Values\.([\w.]+) \}\}")
CONDITION = re.compile(r"^\{\{- if \.Values\.([\w.]+) \}\}\n(.*?)^\{\{- end \}\}\n", re.M | re.S)


def template(text: str, values: dict[str, tuple[str, str, str]]) -> str:
    """A manifest with placeholders. Each value must be where its pattern says."""
    for name, (default, pattern, _) in values.items():
        found = list(re.finditer(pattern, text, re.S))
        assert found, f"{name}: the manifests do not have {pattern}"
        for match in reversed(found if name == "secret" else found[:1]):
            assert match[1] == default, f"{name}: the manifests say {match[1]}"
            text = f"{text[: match.start(1)]}{{{{ .Values.{name} }}}}{text[match.end(1) :]}"
    return text


def files() -> dict[str, str]:
    """The chart's files."""
    version = re.findall(r'__version__ = "(.*)"', VERSION.read_text(encoding="utf-8"))[0]
    semantic = re.sub(r"(?<=\d)(a|b|rc)(?=\d)", r"-\1.", version)  # Helm wants that of semver.org
    manifests = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    scaled = (DEPLOY / "keda.yaml").read_text(encoding="utf-8").partition("\n---\n")[0] + "\n"
    made = "# made by tools/chart.py from the manifests: change those\n"
    return {
        "Chart.yaml": f'{made}apiVersion: v2\nname: tarry\ndescription: "tarry\'s service, and a worker"\ntype: application\n'
        f'version: {semantic}\nappVersion: "{version}"\n',
        "values.yaml": made + values_file(),
        "templates/tarry.yaml": made + template(without_opening(manifests), VALUES),
        "templates/keda.yaml": f"{made}{{{{- if .Values.keda.enabled }}}}\n{template(without_opening(scaled), KEDA)}{{{{- end }}}}\n",
    }


def without_opening(text: str) -> str:
    """Without the comments at the top, which say how the file itself is used."""
    return text[text.index("apiVersion") :]


def values_file() -> str:
    """The defaults, each with what it is."""
    lines: list[str] = []
    group = ""
    for name, (default, _, what) in (
        VALUES | {"keda.enabled": ("false", "", "needs KEDA in the cluster")} | KEDA
    ).items():
        first, _, rest = name.rpartition(".")
        if first and first != group:
            lines.append(f"{first}:")
        group = first
        number = re.fullmatch(r"\d+|false", default)
        lines.append(f"{'  ' if first else ''}{rest}: {default if number else f'{chr(34)}{default}{chr(34)}'} # {what}")
    return "\n".join(lines) + "\n"


def rendered(text: str, values: dict[str, Any]) -> str:
    """A template with its values."""

    def value(name: str) -> Any:
        found: Any = values
        for part in name.split("."):
            found = found[part]
        return found

    text = CONDITION.sub(lambda match: match[2] if value(match[1]) else "", text)
    return PLACEHOLDER.sub(lambda match: str(value(match[1])), text)


def main() -> None:
    """Writes the chart."""
    for name, text in files().items():
        path = DEPLOY / "chart" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path, file=sys.stderr)


if __name__ == "__main__":
    main()
