"""Major version upgrades by pg_upgrade, as docs/upgrading-postgresql.md describes them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from keyrack.db.embedded.binaries import OsAccount
from tests.db.embedded.test_major_versions import OLD, ROOT, shell
from tests.support.servers import Process, reachable_directory

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KEYRACK_UPGRADES"), reason="make test-upgrade"),
    pytest.mark.skipif(not (OLD / "pg_upgrade").exists(), reason="no PostgreSQL 15 of the system"),
]


def steps() -> str:
    """The commands of the page that upgrade the data."""
    found = re.search(r"<!-- major:.*?```sh\n(.*?)```", (ROOT / "docs/upgrading-postgresql.md").read_text(), re.DOTALL)
    assert found
    return found[1]


def made_by_old(base: Path, state: Path) -> None:
    """Make a PostgreSQL 15 database with a customer."""
    fleet = f"keyrack migrate --state {state}; keyrack customer add 'Old Fleet' --state {state}"
    made = shell(fleet, cwd=base, KEYRACK_POSTGRES_BIN=str(OLD))
    assert made.returncode == 0, made.stderr


def checked(base: Path, state: Path) -> tuple[str, int]:
    """The state of the page checksums, and the major version, of a database that still has its customer."""
    asked = shell(
        f"keyrack customer list --json --state {state};"
        f" keyrack database run --state {state} psql -XAtc 'show data_checksums; show server_version_num'",
        cwd=base,
    )
    assert asked.returncode == 0, asked.stderr
    listed, checksums, version = asked.stdout.splitlines()
    assert [row["name"] for row in json.loads(listed)] == ["Old Fleet"]
    return checksums, int(version) // 10_000


def test_data_are_upgraded_as_the_document_says() -> None:
    with reachable_directory() as base:
        state = base / "state"
        made_by_old(base, state)
        script = steps().replace("STATE=/var/lib/keyrack", f"STATE='{state}'")
        assert str(state) in script and str(OLD) in script
        done = shell(script, cwd=base)
        assert done.returncode == 0, done.stderr
        assert re.search(
            rf"The data are upgraded to PostgreSQL \S+\. The old data are in {state}/pgdata\.15: ", done.stdout
        )
        checksums, major = checked(base, state)
        assert checksums == "on" and major > 15
        assert (state / "pgdata.15/PG_VERSION").read_text() == "15\n"
        assert not (state / "upgrade").exists() and not (state / "pgdata.new").exists()
        analyzed = "select count(*) from pg_stats where schemaname = 'public' and tablename = 'customer'"
        counted = shell(f'keyrack database run --state {state} psql -XAtc "{analyzed}"', cwd=base)
        assert int(counted.stdout) > 0
        # After a crash during the copy, no empty database takes the place of the data
        (state / "pgdata").rename(state / "pgdata.lost")
        refused = shell(f"keyrack migrate --state {state}", cwd=base)
        assert refused.returncode == 1
        assert refused.stderr == (
            f"keyrack: {state}/pgdata is missing, but {state}/pgdata.15 is there: an upgrade was interrupted. Nothing "
            f"was changed. Restore the old data with `mv {state}/pgdata.15 {state}/pgdata`, then upgrade again.\n"
        )


def test_data_without_checksums_are_upgraded_too() -> None:
    with reachable_directory() as base:
        state = base / "state"
        made_by_old(base, state)
        off = OsAccount.choose(state / "pgdata").run([OLD / "pg_checksums", "--disable", "-D", state / "pgdata"])
        assert off.returncode == 0, off.stderr
        done = shell(f"keyrack database upgrade --state {state} --from {OLD}", cwd=base)
        assert done.returncode == 0, done.stderr
        checksums, major = checked(base, state)
        assert checksums == "off" and major > 15


def test_obstacles_to_an_upgrade_are_reported() -> None:
    with reachable_directory() as base:
        state = base / "state"
        command = f"keyrack database upgrade --state {state} --from {OLD}"
        none = shell(command, cwd=base)
        assert none.stderr == f"keyrack: There are no data in {state}/pgdata.\n"
        made_by_old(base, state)
        holder = Process("work", "--json", "--state", str(state), env={"KEYRACK_POSTGRES_BIN": str(OLD)})
        try:
            assert holder.popen.stdout is not None and holder.popen.stdout.readline()
            used = shell(command, cwd=base)
            assert used.stderr == (
                f"keyrack: The database in {state} is in use. Nothing was changed. Stop all processes of Keyrack that "
                "use it.\n"
            )
        finally:
            holder.stop()
        same = shell(command, cwd=base, KEYRACK_POSTGRES_BIN=str(OLD))
        assert re.search(
            r"keyrack: PostgreSQL 15\S* in \S+ is not newer than 15\S*\. Nothing was changed\.\n$", same.stderr
        )
        ours = shell("keyrack database upgrade --from /", cwd=base, KEYRACK_DATABASE_URL="postgresql://127.0.0.1/x")
        assert ours.stderr == ("keyrack: KEYRACK_DATABASE_URL selects an external server: upgrade it yourself.\n")
        assert (state / "pgdata/PG_VERSION").read_text() == "15\n"
