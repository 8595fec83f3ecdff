"""Restores after a total loss, to the moment before a mistake, and their errors."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from keyrack.db.embedded.server import EmbeddedServer
from keyrack.ops.backups.post_restore import JUMP
from tests.db.embedded.test_concurrent_commands import servers
from tests.db.embedded.test_postgres import Nobody
from tests.ops.backups.instance import Caller, House, new_house, written
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

OLD = Path("/usr/lib/postgresql/15/bin")
PERSON = {"emailAddress": "u@example.org", "userData": {"firstName": "U", "lastName": "U"}}


def test_restore_to_the_moment_before_a_table_was_dropped(house: House) -> None:
    """Restore the state before a `drop table` after the loss of the data directory.

    After `restore --to`, all rows of that time are there, the API responds, and no number is used a second time.
    """
    with house.serving() as url:
        mo = Caller(url, house)
        user = mo.call("PUT", "/users", PERSON)["id"]
        first = mo.car("first")
        events = [mo.event(first, user)]
        second = mo.car("second", **{"Idempotency-Key": "before"})
        events.append(mo.event(second, user))
        moment = house.now()
        lost = mo.car("lost", **{"Idempotency-Key": "after"})
        events.append(mo.event(lost, user))
        late = house.now()
        house.sql("drop table event cascade")
        assert house.json("backup", "verify")["upToNow"]
    house.lose()
    # A command must not create an empty database now
    assert house.refused("customer", "list") == (
        f"There are no data in {house.state}/pgdata, but backups of them in {house.backups}. `keyrack backup restore` "
        "restores them. To begin with an empty database, set KEYRACK_BACKUP_DIRECTORY to another directory."
    )
    restored = house.json("backup", "restore", "--to", written(moment))
    assert (restored["backup"], restored["timeline"], restored["masterKey"]) == (house.full["name"], 2, True)
    assert (restored["kept"], restored["notAdvanced"]) == (None, [])
    assert restored["reached"] <= written(moment)
    with house.serving() as url:
        assert mo.status("/cars", url) == 401  # all sign-ins have ended
        again = Caller(url, house)
        assert [car["id"] for car in again.call("GET", "/cars?$orderby=id")] == [first, second]
        assert [event["id"] for event in again.call("GET", "/events?$orderby=id")] == events[:2]
        assert again.car("second", **{"Idempotency-Key": "before"}) == second  # the stored response
        anew = again.car("lost", **{"Idempotency-Key": "after"})  # its first effect is reverted, so it is done
        assert anew > JUMP > lost
        assert again.event(anew, user) == events[1] + JUMP + 1
        told = house.run("backup", "list").stdout.splitlines()
        assert told[-1] == "There is no full backup since the last restore. Create one: keyrack backup create"
        newer = house.json("backup", "create")
        assert newer["timeline"] == 2
        assert house.run("backup", "list").stdout.splitlines()[-1].startswith("Archive: 00000002")
        house.json("backup", "verify")
        assert [row["timeline"] for row in house.json("backup", "list")["reaches"]] == [1, 2]
        # The abandoned timeline can still be restored by its number while the new one continues
        drill = house.json("backup", "drill", "--timeline", 1, "--to", written(late))
        assert (drill["backup"], drill["tables"]["car"], drill["tables"]["event"]) == (house.full["name"], 3, 3)
    drill = house.json("backup", "drill")
    assert (drill["backup"], drill["tables"]["car"], drill["masterKey"]) == (newer["name"], 3, True)
    assert not (house.state / "drill").exists()
    assert house.refused("backup", "drill", "--timeline", 1, newer["name"]) == (
        f"The backup {newer['name']} of timeline 2 is not in the history of timeline 1, because a restore started "
        "another timeline. To restore from the backup, add --timeline 2."
    )


def test_a_restore_includes_wal_that_is_not_archived_yet(house: House) -> None:
    """`--replace` keeps the data under another name. WAL beyond the archive is restored, too."""
    archived = house.segments()
    house.wal.chmod(0o500)
    with house.running():
        house.json("customer", "add", "Later Fleet")
    house.wal.chmod(0o700)
    assert house.segments() == archived
    assert house.refused("backup", "restore") == (
        f"{house.state}/pgdata already contains data. Nothing was changed. Add --replace to restore in their place; "
        "they are kept under another name."
    )
    shown = house.json("backup", "restore", "--replace", "--dry-run")
    assert shown["dryRun"] and house.full["name"] in shown["would"] and str(house.state) in next(iter(shown["goes"]))
    assert house.refused("backup", "restore", "--replace").endswith("Confirm with --yes.")
    restored = house.json("backup", "restore", "--replace", "--yes")
    assert re.fullmatch(rf"{house.state}/pgdata\.before-\d{{8}}T\d{{6}}Z", restored["kept"])
    assert (Path(restored["kept"]) / "PG_VERSION").exists()
    assert [row["name"] for row in house.json("customer", "list")] == ["Example Fleet", "Later Fleet"]


def test_impossible_restores_are_rejected_with_an_explanation(house: House) -> None:
    """Rejected restores leave the data unchanged.

    Reasons are data in use, an unreachable time, another version and a gap in the WAL.
    """
    with house.running():
        assert house.refused("backup", "restore", "--replace", "--yes") == (
            f"The database in {house.state}/pgdata is in use. Nothing was changed. Stop every process of Keyrack that "
            "uses it (`keyrack serve`, `keyrack work` and other commands), then try again."
        )
    within = re.compile(r"Recoverable: (20\S+Z) to (20\S+Z) \(timeline 1\)\.")
    early = house.refused("backup", "restore", "--replace", "--yes", "--to", "2026-01-01")
    before, _, after = early.partition(" Recoverable")
    assert before == "2026-01-01T00:00:00.000000Z is before the first recoverable time."
    assert within.fullmatch("Recoverable" + after)
    late = house.refused("backup", "restore", "--replace", "--yes", "--to", "2999-01-01")
    before, _, after = late.partition(" Recoverable")
    assert before == "2999-01-01T00:00:00.000000Z is after the last recoverable time."
    assert within.fullmatch("Recoverable" + after)
    assert house.refused("backup", "restore", "20200101T000000Z", "--replace") == (
        f"There is no backup 20200101T000000Z in {house.backups}. `keyrack backup list` lists all backups."
    )
    if OLD.exists():
        assert re.match(
            rf"The backup {house.full['name']} was made by PostgreSQL \S+, but the installed programs are "
            r"PostgreSQL 15\S+\. Nothing was changed",
            house.refused("backup", "restore", "--replace", "--yes", KEYRACK_POSTGRES_BIN=str(OLD)),
        )
    with house.running():
        for name in ("Later Fleet", "Last Fleet"):
            house.json("customer", "add", name)
            house.json("backup", "verify")
    newest = sorted(house.segments())[-2]
    (house.wal / f"{newest}.gz").unlink()
    shutil.rmtree(house.state / "pgdata")
    assert re.fullmatch(
        rf"The WAL archive has a gap: {newest} is missing\. The backup {house.full['name']} reaches \S+Z at most\. "
        r"Choose an earlier time with --to, or a backup from after the gap\.",
        house.refused("backup", "restore"),
    )
    assert f"The WAL archive has a fault: {newest} is missing." in house.refused("backup", "verify")
    assert not (house.state / "pgdata").exists()


def test_backups_of_another_database_are_not_used(house: House) -> None:
    """They neither replace these data, nor does this server add to them."""
    with new_house() as neighbour:
        with EmbeddedServer(neighbour.state):
            pass
        assert re.fullmatch(
            rf"The backups in {house.backups} are of another database \(\d+\) than {neighbour.state}/pgdata \(\d+\)\. "
            r"Nothing was changed\. To restore them anyway, move that directory away first\.",
            neighbour.refused("backup", "restore", "--replace", "--yes", KEYRACK_BACKUP_DIRECTORY=str(house.backups)),
        )
        assert re.fullmatch(
            rf"{house.backups} has the backups of another database \(\d+; this one is \d+\)\. Set "
            r"KEYRACK_BACKUP_DIRECTORY to another directory\.",
            neighbour.refused("customer", "list", KEYRACK_BACKUP_DIRECTORY=str(house.backups)),
        )
        assert (neighbour.state / "pgdata/PG_VERSION").exists()


def test_a_restore_on_another_machine_needs_the_master_key(house: House) -> None:
    """Backups have everything but the master key. Its absence is reported."""
    elsewhere = house.base / "elsewhere"
    there = {"KEYRACK_STATE": str(elsewhere)}
    drill = house.run("backup", "drill", **there)
    assert drill.exit_code == 1
    assert "The data can be restored, but not their secrets." in drill.stderr
    done = house.run("backup", "restore", **there)
    assert done.exit_code == 0, done.stderr
    assert f"No backup contains the master key, and {elsewhere}/master.key is missing" in done.stdout
    shutil.copy(house.state / "master.key", elsewhere)
    assert house.json("backup", "drill", **there)["masterKey"] is True
    assert [row["name"] for row in house.json("customer", "list", **there)] == ["Example Fleet"]
    eventually(lambda: not servers(elsewhere), "the end of the other database")


def test_times_between_transactions_can_be_reached(house: House) -> None:
    """A time without transactions is valid: its data are those of the transaction before."""
    with house.running():
        house.json("customer", "add", "Later Fleet")
        quiet = house.now() + timedelta(milliseconds=1)
        eventually(lambda: house.now() > quiet, "the clock")
        house.json("backup", "verify")
    house.lose()
    house.json("backup", "restore", "--to", written(quiet))
    assert [row["name"] for row in house.json("customer", "list")] == ["Example Fleet", "Later Fleet"]


# A command line for the system's Python
AS_NOBODY = """
import json, os, shutil, sys
from typer.testing import CliRunner
from keyrack.cli.main import application
os.environ |= json.loads(sys.argv[1])
for words in json.loads(sys.argv[2]):
    if words == ["lose"]:
        shutil.rmtree(os.environ["KEYRACK_STATE"] + "/pgdata")
    else:
        print(CliRunner().invoke(application(words[0]), words).output)
"""


def test_an_unprivileged_user_can_back_up_and_restore(house: House, nobody: Nobody) -> None:
    """The user owns the data and the backups."""
    for path in (house.base, *house.base.rglob("*")):
        os.lchown(path, nobody.uid, -1)
    commands = (("backup", "create"), ("lose",), ("backup", "restore"), ("customer", "list"), ("backup", "drill"))
    said = nobody.run(AS_NOBODY, json.dumps(house.env), json.dumps(commands))
    assert " created and verified: " in said, said
    assert "The database continues in timeline 2." in said
    assert " Example Fleet " in said
    assert " can be restored up to " in said
    assert (house.state / "pgdata").stat().st_uid == house.wal.stat().st_uid == nobody.uid


def test_a_failed_restore_changes_nothing(house: House) -> None:
    """A damaged segment ends the recovery. The data and the timeline stay, and partial results are removed."""
    with house.running():
        house.json("customer", "add", "Later Fleet")
        house.json("backup", "verify")
    house.ended()
    newest = house.wal / f"{max(house.segments())}.gz"
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-100])
    failed = house.refused("backup", "restore", "--replace", "--yes")
    assert failed.startswith("PostgreSQL does not start (status 1): ")
    assert f"{newest} is damaged" in failed
    assert not (house.state / "restoring").exists()
    newest.write_bytes(whole)
    # A restore that fails after it has started a new timeline
    (house.wal / "00000002.history.gz").write_bytes(gzip.compress(b"1\t0/2000000\tbefore a test\n"))
    (house.wal / "00000002.history.gz").chmod(0o644)
    assert [row["name"] for row in house.json("customer", "list")] == ["Example Fleet", "Later Fleet"]
    restored = house.json("backup", "restore", "--replace", "--yes")
    assert restored["timeline"] == 3
    assert [row["name"] for row in house.json("customer", "list")] == ["Example Fleet", "Later Fleet"]
