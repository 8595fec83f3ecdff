"""Modules of the drivers' app in Node: the ten moments, and reminders."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from keyrack.drivers.app_files import OWN
from keyrack.http import routes
from tests.drivers.app_tree import copy_app

TESTS = Path(__file__).parent / "js"
NODE = shutil.which("node")
# Causes are a defect of the app, or a page that is older than the server's state. The app shows the code itself.
WITHOUT_TEXT = {
    "assignment-request-not-found",
    "assignment-without-end",
    "device-not-found",
    "driver-passkey-not-found",
    "driver-provider-not-found",
    "driver-session-not-found",
    "no-credential-given",
    "passkeys-unavailable",
    "path-not-found",
    "push-disabled",
    "push-keys-invalid",
    "push-service-not-allowed",
}


@pytest.mark.skipif(NODE is None, reason="Node is not installed (Debian: apt-get install nodejs)")
def test_modules_in_node(tmp_path: Path) -> None:
    root = copy_app(tmp_path)
    shutil.copytree(TESTS, root / "test")
    ran = subprocess.run(
        ["node", "--test", *sorted(str(path) for path in (root / "test").glob("*.test.js"))],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "# fail 0" in ran.stdout


def test_texts_are_used() -> None:
    """Modules name every key of a text, or compose it."""
    texts = [line for line in (OWN / "texts.js").read_text().splitlines() if line.startswith("  '")]
    keys = [line.split("'")[1] for line in texts]
    modules = [path.read_text() for path in sorted(OWN.rglob("*.js")) if not path.name.startswith("texts")]
    sources = "\n".join([*modules, (OWN / "texts.js").read_text().partition("};")[2]])
    assert len(keys) > 100
    composed = ("error.", "moment.", "action.", "phase.", "privacy.", "requests.state.")
    assert [key for key in keys if f"'{key}'" not in sources and not key.startswith(composed)] == []


def test_rejections_have_texts_for_drivers() -> None:
    """Errors that a driver can cause have a title and a help."""
    declared = {
        code.code
        for row in routes.ALL
        if row.path.startswith("/drive/api/")
        for codes in row.responses.errors.values()
        for code in codes
    }
    keys = {line.split("'")[1] for line in (OWN / "texts.js").read_text().splitlines() if line.startswith("  'error.")}
    assert {code for code in declared if not {f"error.{code}", f"error.{code}.help"} <= keys} == WITHOUT_TEXT
