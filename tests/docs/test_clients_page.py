"""docs/clients.md names the versions that `make test-clients` runs its commands with."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_names_the_pinned_versions() -> None:
    text = (ROOT / "docs/clients.md").read_text()
    pinned = json.loads((ROOT / "tests/clients/package.json").read_text())["dependencies"]
    named = re.findall(r"(@?[a-z/-]+)@(\d+\.\d+\.\d+)", text)
    assert {name for name, _ in named} == {"@hey-api/openapi-ts", "openapi-fetch", "openapi-typescript", "typescript"}
    assert [version for name, version in named if pinned[name] != version] == []
    (version,) = re.findall(r"openapi-python-client==(\S+)", text)
    assert f"openapi-python-client=={version} \\" in (ROOT / "requirements/clients.txt").read_text()


def test_the_lock_names_no_registry() -> None:
    lock = json.loads((ROOT / "tests/clients/package-lock.json").read_text())
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all("integrity" in package and "resolved" not in package for package in packages.values())
