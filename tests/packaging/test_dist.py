"""The packages of `make dist`, installed into an empty environment (`make test-dist`)."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.test_artifacts import the_demo_answers
from tests.support.servers import reachable_directory

ROOT = Path(__file__).parents[2]
DIST = os.environ.get("KEYRACK_DIST", "")
PATIENCE = 600  # seconds for pip

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(not DIST, reason="make test-dist runs it: it takes a minute")]


def test_the_checksums_match() -> None:
    lines = Path(DIST, "SHA256SUMS").read_text().splitlines()
    assert {line.split("  ")[1] for line in lines} == {path.name for path in Path(DIST).iterdir()} - {"SHA256SUMS"}
    for line in lines:
        digest, name = line.split("  ")
        assert hashlib.sha256(Path(DIST, name).read_bytes()).hexdigest() == digest


def test_the_packages_are_reproducible(tmp_path: Path) -> None:
    script = ROOT / "packages/dist.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "again")], check=True, timeout=PATIENCE)
    for path in Path(DIST).iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_demo_runs_from_an_empty_environment() -> None:
    """The installation is that of docs/install.md, with the embedded PostgreSQL of the requirements."""
    found = re.search(r"<!-- install:.*?```sh\n(.*?)```", (ROOT / "docs/install.md").read_text(), re.DOTALL)
    assert found is not None
    with reachable_directory() as directory:
        lines = found[1].replace("/opt/keyrack", f"{directory}/venv")
        installed = subprocess.run(
            ["bash", "-euc", lines], cwd=DIST, capture_output=True, text=True, timeout=PATIENCE,
            env=os.environ | {"PATH": f"{Path(sys.base_prefix, 'bin')}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert installed.returncode == 0 and installed.stdout.startswith("Keyrack "), installed.stderr
        the_demo_answers(directory / "venv", directory, KEYRACK_DATABASE_URL_FILE="")
