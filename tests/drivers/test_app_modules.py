"""Modules of the drivers' app in Node: the ten moments, and reminders."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from keyrack.drivers.app_files import OWN
from tests.drivers import app_contract
from tests.drivers.app_tree import copy_app

TESTS = Path(__file__).parent / "js"
NODE = shutil.which("node")


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


def test_every_error_of_the_server_has_a_text() -> None:
    """`rejections.js` has the codes that calls may get, and no others. Node tests their texts."""
    table = (OWN / "rejections.js").read_text().partition("const TEXTS = [")[2].partition("];\n\n")[0]
    codes = set(re.findall(r"'([a-z-]+)'", table))
    keys = {text for text in re.findall(r"'([a-z.-]+)'", table) if "." in text}
    expected = app_contract.error_codes()
    assert len(expected) > 60
    assert codes - keys == expected


def test_texts_are_used() -> None:
    """Modules name every key of a text, or compose it."""
    texts = [line for line in (OWN / "texts.js").read_text().splitlines() if line.startswith("  '")]
    keys = [line.split("'")[1] for line in texts]
    modules = [path.read_text() for path in sorted(OWN.rglob("*.js")) if not path.name.startswith("texts")]
    sources = "\n".join([*modules, (OWN / "texts.js").read_text().partition("};")[2]])
    assert len(keys) > 100
    composed = ("moment.", "action.", "phase.", "privacy.", "requests.state.")
    assert [key for key in keys if f"'{key}'" not in sources and not key.startswith(composed)] == []
