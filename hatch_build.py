"""What the build adds to pyproject.toml: links that lead somewhere from a package index, and the wheel's SBOM.

README's links and pictures are relative, which an index cannot follow. Here they become absolute, below the one address that
``[tool.hatch.metadata.hooks.custom]`` names; the project's URLs come from the same address. The SBOM (CycloneDX, in
``.dist-info/sboms`` as PEP 770 has it) lists what the wheel contains that is not tarry's own, and what it depends on.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from packaging.requirements import Requirement

ASSETS = "src/tarry/programs/dashboard/assets"
BUNDLED = [{"name": "idiomorph", "version": "0.8.0", "license": "0BSD", "file": f"{ASSETS}/idiomorph.min.js"}]
"""Files of others in the wheel. The licence of each lies beside it."""
PICTURE = re.compile(r"(!\[[^\]]*\]\()(?!https?://)([^)]+\))")
LINK = re.compile(r"((?<!!)\[[^\]]*\]\()(?!https?://|#)([^)]+\))")


class Metadata(MetadataHookInterface):
    """README with absolute links, and the project's URLs."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets ``readme`` and ``urls``."""
        at, version = str(self.config["repository"]).rstrip("/"), metadata["version"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = PICTURE.sub(rf"\g<1>{at}/raw/v{version}/\2", text)
        text = LINK.sub(rf"\g<1>{at}/blob/v{version}/\2", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {
            "Homepage": at,
            "Source": at,
            "Documentation": f"{at}/blob/v{version}/docs/index.md",
            "Changelog": f"{at}/blob/v{version}/CHANGELOG.md",
            "Issues": f"{at}/issues",
            "Security": f"{at}/blob/v{version}/SECURITY.md",
        }


class Sbom(BuildHookInterface[Any]):
    """The wheel's list of ingredients."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Writes the SBOM and names it to the wheel."""
        if self.target_name == "wheel" and version == "standard":
            path = Path(tempfile.mkdtemp()) / "tarry.cdx.json"
            path.write_text(json.dumps(self._sbom(), indent=2) + "\n", encoding="utf-8")
            build_data["sbom_files"].append(str(path))

    def _sbom(self) -> dict[str, Any]:
        core = self.metadata.core
        required = [_component(text, "required") for text in core.dependencies]
        optional = [_component(text, "optional") for extra in core.optional_dependencies.values() for text in extra]
        names = {core.name, *(part["name"] for part in required)}  # itself: an extra that is made of others
        optional = list({part["name"]: part for part in optional if part["name"] not in names}.values())
        bundled = [self._bundled(part) for part in BUNDLED]
        purl = f"pkg:pypi/{core.name}@{self.metadata.version}"
        parts = [*bundled, *required, *optional]
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "library",
                    "bom-ref": purl,
                    "name": core.name,
                    "version": self.metadata.version,
                    "licenses": [{"license": {"id": "Apache-2.0"}}],
                    "purl": purl,
                }
            },
            "components": parts,
            "dependencies": [{"ref": purl, "dependsOn": [part["bom-ref"] for part in parts]}],
        }

    def _bundled(self, part: dict[str, str]) -> dict[str, Any]:
        content = (Path(self.root) / part["file"]).read_bytes()
        purl = f"pkg:npm/{part['name']}@{part['version']}"
        return {
            "type": "library",
            "bom-ref": purl,
            "name": part["name"],
            "version": part["version"],
            "scope": "required",
            "licenses": [{"license": {"id": part["license"]}}],
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
            "purl": purl,
            "properties": [{"name": "tarry:bundled", "value": part["file"].removeprefix("src/")}],
        }


def _component(text: str, scope: str) -> dict[str, Any]:
    """A dependency: which version is installed is decided by the installer, so none is named."""
    wanted = Requirement(text)
    purl = f"pkg:pypi/{wanted.name.lower()}"
    ranges = {"name": "tarry:requirement", "value": text}
    return {
        "type": "library",
        "bom-ref": purl,
        "name": wanted.name,
        "scope": scope,
        "purl": purl,
        "properties": [ranges],
    }
