"""Checkpoints: signing, tampering, retention and copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.changelog.record_format import FIRST, decode, encode, hash_of
from keyrack.changelog.transparency import checkpoint_keys, checkpoint_publisher, checkpoints, tree_builder
from keyrack.changelog.transparency.checkpoint_keys import CheckpointKeyError
from keyrack.changelog.transparency.checkpoint_publisher import NotPublished
from keyrack.changelog.transparency.checkpoints import LogRefused
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.transparency.signed_notes import Checkpoint, Note, NoteNotVerified
from keyrack.cli.commands.audit import NO_LOG
from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.ops.doctor.settings_check import examined
from keyrack.ops.housekeeping import KNOW, STEPS, Housekeeping
from keyrack.ops.monitoring.findings import Severity
from tests.changelog.outbox import IDS
from tests.changelog.transparency.checkpoints import Signing, secret
from tests.docs.code_blocks import block
from tests.support.servers import SCRIPT_DEADLINE, Sql, migrated_database

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    """A database without other sequencers and signers."""
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def sql(own: str) -> Iterator[Sql]:
    statements = Sql(own)
    yield statements
    statements.close()


@pytest.fixture
def signing(own: str, sql: Sql, tmp_path: Path) -> Iterator[Signing]:
    yield Signing(own, tmp_path, sql)
    for table in ("change_tree", "change_checkpoint", "change_tile", "change", "change_log"):
        sql.execute(f"delete from {table}")


@pytest.fixture
def customer() -> int:
    return next(IDS)


def sizes(signing: Signing, customer: int) -> list[int]:
    return [made.size for made in signing.made(customer)]


# Signing


def test_a_log_is_signed_when_it_has_grown(signing: Signing, customer: int) -> None:
    other = next(IDS)
    signing.write(customer, 5)
    signing.write(other, 300)
    signing.sign()
    (quiet,) = signing.made(other)
    signing.write(customer, 2)
    signing.sign()
    assert (sizes(signing, customer), sizes(signing, other)) == ([5, 7], [300])
    assert [made.note for made in signing.made(other)] == [quiet.note]
    newest = signing.made(customer)[-1]
    note = Note.read(newest.note.encode())
    said = Checkpoint.read(note.text)
    assert said == Checkpoint(f"keyrack.example.com/changes/{customer}/{newest.epoch}", 7, newest.root)
    stored = signing.sql.value("select tree from change_log where customer_id = $1", customer)
    assert said.root == Tree.read(stored).root
    log, time = note.verify(signing.keys(customer)).values()
    assert (log, time) == (None, int(newest.at.timestamp()))


def test_a_log_is_signed_once_per_interval(signing: Signing, customer: int) -> None:
    signing.given["checkpoint_seconds"] = 3600
    for _ in range(2):
        signing.write(customer)
        signing.sign()
    assert sizes(signing, customer) == [1]


def test_many_changes_are_read_in_pieces(signing: Signing, customer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_builder, "PIECE", 100)
    monkeypatch.setattr(tree_builder, "LOGS", 2)
    others = [next(IDS) for _ in range(4)]
    for one in others:
        signing.write(one, 30)
    signing.write(customer, 777)
    signing.sign()
    assert [sizes(signing, one) for one in (customer, *others)] == [[777], *[[30]] * 4]
    signing.write(customer, 300)
    signing.sign()
    assert sizes(signing, customer) == [777, 1077]


def test_classes_of_retention_make_no_difference(signing: Signing, customer: int) -> None:
    for number in (4, 1, 2):
        signing.write(customer, 3)
        signing.sql.execute("update change_log set class = $2 where customer_id = $1", customer, number)
    signing.sign()
    assert sizes(signing, customer) == [9]


# Keys


def test_a_missing_key_is_reported_and_nothing_is_signed(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.given["checkpoint_key_file"] = tmp_path / "missing"
    signing.write(customer, 5)
    with pytest.raises(CheckpointKeyError, match=f"{tmp_path}/missing is missing. Make it with `keyrack audit keys`"):
        signing.sign()
    assert sizes(signing, customer) == []
    assert signing.sql.value("select size from change_tree where customer_id = $1", customer) == 5
    signing.given["checkpoint_key_file"] = tmp_path / "key"
    signing.sign()
    assert sizes(signing, customer) == [5]


@pytest.mark.parametrize("text", ["", "no key", secret("a")[:-4], "\n".join(map(secret, "abcde")), "\x80"])
def test_an_invalid_checkpoint_key_is_rejected(text: str, signing: Signing, tmp_path: Path) -> None:
    (tmp_path / "key").write_text(text, "latin-1")
    with pytest.raises(CheckpointKeyError) as error:
        signing.sign()
    assert secret("a") not in str(error.value)


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    signing = {"state": tmp_path / "state", "database_url": None, "checkpoint_key_file": None}
    settings = Signing.__new__(Signing)
    settings.given = signing
    made = checkpoint_keys.needed(settings.settings)
    file = tmp_path / "state/checkpoint.key"
    assert (file.stat().st_mode & 0o777, checkpoint_keys.needed(settings.settings)) == (0o600, made)
    assert [one.name for one in file.parent.iterdir()] == ["checkpoint.key"]


def test_a_key_is_replaced_while_both_sign(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.write(customer)
    signing.sign()
    old, before = signing.keys(customer), signing.made(customer)[-1]
    (tmp_path / "key").write_text(f"{secret('n')}\n{(tmp_path / 'key').read_text()}")
    signing.write(customer)
    signing.sign()
    both = Note.read(signing.made(customer)[-1].note.encode())
    new = signing.keys(customer)[:2]
    assert both.verify(old).keys() == set(old)
    assert both.verify(new).keys() == set(new)
    (tmp_path / "key").write_text(secret("n"))
    signing.write(customer)
    signing.sign()
    after = Note.read(signing.made(customer)[-1].note.encode())
    assert after.verify(new).keys() == set(new)
    with pytest.raises(NoteNotVerified):
        after.verify(old)
    assert Note.read(before.note.encode()).verify(old).keys() == set(old)


# Tampering: changes to the log by an attacker with all rights


def rewritten(sql: Sql, customer: int, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Replace the log's records and all its hashes, as an attacker who knows the format would."""
    rows = sql.rows("select * from change where customer_id = $1 order by change_id", customer)
    records, before = list[bytes](), FIRST
    for number, record in enumerate(change([row["record"] for row in rows]), start=1):
        said = decode(record)
        fields = {name: getattr(said, name) for name in said.__slots__} | {"number": number, "previous": before}
        records.append(encode(type(said)(**fields)))
        before = hash_of(records[-1])
    sql.execute("delete from change where customer_id = $1 and change_id > $2", customer, len(records))
    for number, record in enumerate(records, start=1):
        sql.execute("update change set record = $3 where customer_id = $1 and change_id = $2", customer, number, record)
    tree = Tree.of(map(leaf_hash, records))
    sql.execute(
        "update change_log set last_id = $2, hash = $3, tree = $4 where customer_id = $1",
        customer, len(records), before, tree.stored,
    )  # fmt: skip


def other(record: bytes) -> bytes:
    said = decode(record)
    return encode(type(said)(**{name: getattr(said, name) for name in said.__slots__} | {"kind": "car.deleted"}))


REWRITTEN: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "altered": lambda records: [*records[:2], other(records[2]), *records[3:]],
    "removed": lambda records: [*records[:2], *records[3:]],
    "inserted": lambda records: [*records[:2], records[2], *records[2:-1]],
    "reordered": lambda records: [records[1], records[0], *records[2:]],
    "rolled back": lambda records: records[:3],
    "emptied": lambda records: [],
}


@pytest.mark.parametrize("done", REWRITTEN)
def test_a_rewritten_log_is_never_signed_and_is_detected(
    done: str, signing: Signing, customer: int, tmp_path: Path
) -> None:
    signing.given["checkpoint_directory"] = tmp_path / "published"
    neighbour = next(IDS)
    signing.write(customer, 5)
    signing.sign()
    signing.publish()
    rewritten(signing.sql, customer, REWRITTEN[done])
    signing.write(neighbour, 2)
    with pytest.raises(LogRefused, match=f"customer {customer}: "):
        signing.sign()
    signing.write(customer, 5)  # later changes do not matter
    with pytest.raises(LogRefused, match=f"customer {customer}: "):
        signing.sign()
    assert (sizes(signing, customer), sizes(signing, neighbour)) == ([5], [2])
    found = verified(signing, customer, "--checkpoints", tmp_path / "published", fails=True)
    assert found.startswith("keyrack: Change "), found
    # Without the checkpoints and the stored tree it is signed, but the published copies still contradict it
    for table in ("change_tree", "change_checkpoint", "change_tile"):
        signing.sql.execute(f"delete from {table} where customer_id = $1", customer)
    signing.sign()
    assert verified(signing, customer, "--checkpoints", tmp_path / "published", fails=True).startswith(
        "keyrack: Change"
    )


def test_a_record_that_was_altered_before_its_checkpoint_is_not_signed(signing: Signing, customer: int) -> None:
    signing.write(customer, 5)
    signing.sql.execute(
        "update change set record = record || '\\x00' where customer_id = $1 and change_id = 3", customer
    )
    with pytest.raises(LogRefused, match="its 5 records are not those that were numbered"):
        signing.sign()
    assert sizes(signing, customer) == []


def test_a_change_that_is_missing_is_not_signed_over(signing: Signing, customer: int) -> None:
    signing.write(customer, 5)
    signing.sql.execute("delete from change where customer_id = $1 and change_id = 3", customer)
    with pytest.raises(LogRefused, match="number 3 is missing"):
        signing.sign()


def test_a_replaced_checkpoint_is_detected(signing: Signing, customer: int) -> None:
    signing.write(customer, 5)
    signing.sign()
    rewritten(signing.sql, customer, REWRITTEN["altered"])
    tree = signing.sql.value("select tree from change_log where customer_id = $1", customer)
    signing.sql.execute("update change_tree set edge = $2 where customer_id = $1", customer, tree)
    signing.sql.execute("update change_checkpoint set root = $2 where customer_id = $1", customer, Tree.read(tree).root)
    signing.write(customer)
    with pytest.raises(LogRefused, match="its newest checkpoint, of 5 records, is not what was signed"):
        signing.sign()


def test_replaced_hashes_are_detected(signing: Signing, customer: int) -> None:
    signing.write(customer, 300)
    signing.sign()
    rewritten(signing.sql, customer, REWRITTEN["altered"])
    tree = signing.sql.value("select tree from change_log where customer_id = $1", customer)
    signing.write(customer)
    signing.sql.execute("update change_tree set edge = $2 where customer_id = $1", customer, tree)
    with pytest.raises(LogRefused, match="its first 300 records are not those of its newest checkpoint"):
        signing.sign()


def test_removed_hashes_are_detected(signing: Signing, customer: int) -> None:
    signing.write(customer, 5)
    signing.sign()
    signing.write(customer)
    signing.sql.execute("delete from change_tile where customer_id = $1", customer)
    with pytest.raises(LogRefused, match="its stored hashes are missing"):
        signing.sign()


def test_a_restored_log_is_signed_again(signing: Signing, customer: int) -> None:
    signing.write(customer, 5)
    signing.sign()
    record = signing.sql.value("select record from change where customer_id = $1 and change_id = 5", customer)
    signing.write(customer)
    altered = "update change set record = $2 where customer_id = $1 and change_id = 6"
    right = signing.sql.value("select record from change where customer_id = $1 and change_id = 6", customer)
    signing.sql.execute(altered, customer, record)
    with pytest.raises(LogRefused):
        signing.sign()
    signing.sql.execute(altered, customer, right)
    signing.sign()
    assert sizes(signing, customer) == [5, 6]
    assert signing.sql.value("select count(*) from change_tree where refused is not null") == 0


# Retention


def test_the_last_checkpoint_of_an_old_day_is_kept(signing: Signing, customer: int) -> None:
    for _ in range(6):
        signing.write(customer)
        signing.sign()
    back = "update change_checkpoint set at = date_trunc('day', now()) - $3::integer * interval '1 day' where"
    for size, days in ((1, 30), (2, 30), (3, 29), (4, 1), (5, 1)):
        signing.sql.execute(f"{back} customer_id = $1 and size = $2", customer, size, days)
    for _ in range(2):
        signing.run(checkpoints.prune_checkpoints)
        assert sizes(signing, customer) == [2, 3, 4, 5, 6]
    signing.sql.execute("update change_log set oldest_id = 4 where customer_id = $1", customer)
    signing.run(checkpoints.prune_checkpoints)
    assert sizes(signing, customer) == [3, 4, 5, 6]  # the first covers the dropped changes


# Copies


def test_each_checkpoint_is_published_once(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.write(customer)
    signing.sign()
    signing.publish()  # no directory is configured
    folder = tmp_path / "published"
    signing.given["checkpoint_directory"] = folder
    signing.write(customer)
    signing.sign()
    for _ in range(2):
        signing.publish()
        made = signing.made(customer)
        files = sorted(folder.rglob("*"))
        assert [file for file in files if file.is_file()] == [checkpoint_publisher.place(folder, one) for one in made]
    assert [checkpoint_publisher.place(folder, one).read_text() for one in made] == [one.note for one in made]
    assert checkpoint_publisher.place(folder, made[0]).stat().st_mode & 0o222 == 0
    assert list(checkpoint_publisher.of_log(folder, customer, made[0].epoch)) == [
        checkpoint_publisher.place(folder, one) for one in made
    ]
    assert list(checkpoint_publisher.of_log(folder, 7, made[0].epoch)) == []


def test_an_interrupted_copy_is_written_again(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.given["checkpoint_directory"] = tmp_path / "published"
    signing.write(customer)
    signing.sign()
    signing.publish()
    signing.sql.execute("update change_checkpoint set is_published = false")
    signing.publish()
    assert signing.sql.value("select bool_and(is_published) from change_checkpoint")


def test_an_unwritable_copy_is_reported(signing: Signing, customer: int, tmp_path: Path) -> None:
    (tmp_path / "published").write_text("a file")
    signing.given["checkpoint_directory"] = tmp_path / "published"
    signing.write(customer)
    signing.sign()
    with pytest.raises(NotPublished, match="cannot be read: Not a directory"):
        signing.publish()
    assert not signing.sql.value("select bool_or(is_published) from change_checkpoint")


@pytest.mark.parametrize("done", REWRITTEN)
def test_the_publisher_reports_a_log_that_contradicts_its_copies(
    done: str, signing: Signing, customer: int, tmp_path: Path
) -> None:
    """An attacker who rewrites the log and removes all traces in the database cannot reach the copies."""
    folder, neighbour = tmp_path / "published", next(IDS)
    signing.given["checkpoint_directory"] = folder
    signing.write(customer, 5)
    signing.sign()
    signing.publish()
    rewritten(signing.sql, customer, REWRITTEN[done])
    for table in ("change_tree", "change_checkpoint", "change_tile"):
        signing.sql.execute(f"delete from {table} where customer_id = $1", customer)
    for count in (0, 1, 7):
        signing.write(customer, count)
        signing.write(neighbour)
        signing.sign()
        if sizes(signing, customer):
            different = f"The log of customer {customer} (has . records, but|was rewritten)"
            with pytest.raises(NotPublished, match=different):
                signing.publish()
    assert len(list((folder / str(customer)).rglob("*.note"))) == 1
    assert len(list((folder / str(neighbour)).rglob("*.note"))) == 3


def test_an_invalid_copy_is_reported(signing: Signing, customer: int, tmp_path: Path) -> None:
    folder = tmp_path / "published"
    signing.given["checkpoint_directory"] = folder
    signing.write(customer)
    signing.sign()
    file = checkpoint_publisher.place(folder, signing.made(customer)[0])
    file.parent.mkdir(parents=True)
    file.write_text("no note")
    with pytest.raises(NotPublished, match="exists, but is not a checkpoint"):
        signing.publish()


# The command line


def verified(signing: Signing, customer: int, *options: object, fails: bool = False) -> Any:
    """Run `keyrack audit verify` on the log. Returns its JSON, or its standard error if it fails."""
    words = ["verify", "--customer", customer, *options, *([] if fails else ["--json"])]
    said = audit(signing, *words)
    assert bool(said.exit_code) is fails, said.output
    return said.stderr if fails else json.loads(said.stdout)


def test_a_checkpoint_is_made_at_once(signing: Signing, customer: int) -> None:
    assert audit(signing, "checkpoint", "--customer", customer).stderr == f"keyrack: {NO_LOG}\n"
    signing.given["checkpoint_seconds"] = 3600
    for count in (3, 5):
        signing.write(customer, count)
        said = audit(signing, "checkpoint", "--customer", customer)
        assert said.stdout == signing.made(customer)[-1].note
    told = json.loads(audit(signing, "checkpoint", "--customer", customer, "--json").stdout)
    assert told == signing.made(customer)[-1].as_json()
    assert sizes(signing, customer) == [3, 8]
    signing.write(0)
    assert "/changes/0/" in audit(signing, "checkpoint", "--installation").stdout
    assert "Choose a log with" in audit(signing, "checkpoint").stderr
    rewritten(signing.sql, customer, REWRITTEN["removed"])
    said = audit(signing, "checkpoint", "--customer", customer)
    assert (
        said.stderr
        == f"keyrack: The log of customer {customer} gets no checkpoint: it has shrunk: it has 7 records, and had 8.\n"
    )
    signing.given["checkpoint_key_file"] = "/nowhere/key"
    assert "There is no signing key for checkpoints" in audit(signing, "checkpoint", "--customer", customer).stderr


def test_keys_are_printed_and_made_if_missing(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.write(customer)
    signing.write(0)
    file = signing.given["checkpoint_key_file"] = tmp_path / "other/key"
    first = audit(signing, "keys", "--customer", customer).stdout
    assert (file.stat().st_mode & 0o777, audit(signing, "keys", "--customer", customer).stdout) == (0o600, first)
    signing.sign()
    assert first.splitlines() == [str(key) for key in signing.keys(customer)]
    told = json.loads(audit(signing, "keys", "--json").stdout)["keys"]
    assert [(one["customerId"], one["use"]) for one in told] == [(0, "log"), (customer, "log"), (None, "time")]
    assert [one["key"] for one in told[1:]] == first.splitlines()
    signing.given["public_url"] = "https://elsewhere.example.com"  # signed names stay
    assert audit(signing, "keys", "--customer", customer).stdout == first
    assert "There is no change log" in audit(signing, "keys", "--customer", next(IDS)).stderr


def test_a_log_is_compared_with_its_stored_checkpoints(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.write(customer, 3)
    signing.sign()
    keyring = [str(key) for key in signing.keys(customer)]
    signing.write(customer, 2)
    told = verified(signing, customer)
    assert (told["proven"], told["checkpoints"], told["withinReach"], told["otherKeys"]) == (3, 1, True, 0)
    said = audit(signing, "verify", "--customer", customer).stdout
    assert "These checkpoints are stored with the log: write access there can remove the newest ones." in said
    (tmp_path / "key").write_text(secret("n"))  # the old key is gone
    signing.sign()
    told = verified(signing, customer)
    assert (told["proven"], told["checkpoints"], told["otherKeys"]) == (5, 1, 1)
    told = verified(signing, customer, "--key", keyring[0])
    assert (told["proven"], told["checkpoints"], told["otherKeys"]) == (3, 1, 1)
    (tmp_path / "key").unlink()
    said = audit(signing, "verify", "--customer", customer).stdout
    assert f"No checkpoint was compared: {tmp_path}/key is missing, so no signing key is trusted." in said


def test_a_directory_without_checkpoints_of_the_log_proves_nothing(
    signing: Signing, customer: int, tmp_path: Path
) -> None:
    signing.write(customer)
    (tmp_path / "empty").mkdir()
    said = verified(signing, customer, "--checkpoints", tmp_path / "empty", fails=True)
    assert f"{tmp_path}/empty has no checkpoint of the log changes/{customer}/" in said
    missing = verified(signing, customer, "--checkpoints", tmp_path / "missing", fails=True)
    assert missing == f"keyrack: {tmp_path}/missing cannot be read: it is not a directory.\n"


def test_an_export_is_compared_with_published_checkpoints(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.given["checkpoint_directory"] = tmp_path / "published"
    for _ in range(2):
        signing.write(customer, 2)
        signing.sign()
    signing.publish()
    keyring = [word for key in signing.keys(customer) for word in ("--key", str(key))]
    export, published = tmp_path / "log.jsonl", ("--checkpoints", tmp_path / "published")
    assert audit(signing, "export", "--customer", customer, "--to", export).exit_code == 0
    signing.given = {}  # on a machine without the server's settings
    told = json.loads(audit(signing, "verify", export, *published, *keyring, "--json").stdout)
    assert (told["proven"], told["checkpoints"], told["withinReach"]) == (4, 2, False)
    assert "Pass the key with --key" in audit(signing, "verify", export, *published).stderr
    others = audit(signing, "verify", export, *published, "--key", keyring[1].replace("/changes/", "/others/"))
    assert "--key: the hash" in others.stderr


def test_a_read_only_session_makes_no_checkpoint(signing: Signing, customer: int) -> None:
    signing.write(customer)
    dsn = str(signing.given["database_url"])
    signing.given["database_url"] = f"{dsn}{'&' if '?' in dsn else '?'}default_transaction_read_only=on"
    said = audit(signing, "checkpoint", "--customer", customer)
    assert said.stderr == "keyrack: The database reports an error: cannot execute INSERT in a read-only transaction\n"
    assert sizes(signing, customer) == []


def test_the_commands_of_the_page(signing: Signing, customer: int, tmp_path: Path) -> None:
    """docs/checkpoints.md: `keys` and `published`, unchanged."""
    signing.given["checkpoint_directory"] = tmp_path / "published"
    signing.write(customer, 2)
    signing.sign()
    signing.publish()
    told = {f"KEYRACK_{name}".upper(): str(value) for name, value in signing.given.items()}
    told |= {"CUSTOMER": str(customer), "PUBLISHED": str(tmp_path / "published")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = "\n".join(block("docs/checkpoints.md", name).text for name in ("keys", "published"))
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=os.environ | told | {"PATH": path},
        capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
    )  # fmt: skip
    assert ran.stderr == ""
    assert "The newest checkpoint confirms them up to number 2" in ran.stdout
    assert (tmp_path / "verifiers.txt").read_text().splitlines() == [str(key) for key in signing.keys(customer)]


# Reports to operators


def test_status_and_doctor_say_what_is_wrong(signing: Signing, customer: int, tmp_path: Path) -> None:
    signing.write(customer, 3)
    signing.sign()
    rewritten(signing.sql, customer, REWRITTEN["removed"])
    with pytest.raises(LogRefused):
        signing.sign()
    told = {f"KEYRACK_{name}".upper(): str(value) for name, value in signing.given.items()}
    said = json.loads(CliRunner(env=told).invoke(application("status"), ["status", "--json"]).stdout)
    (finding,) = [one for one in said["findings"] if one["code"] == "log-refused"]
    assert (finding["level"], finding["text"]) == (
        "critical", "1 change log does not match a signed checkpoint.",
    )  # fmt: skip
    signing.given["checkpoint_key_file"] = tmp_path / "missing"
    (found,) = [one for one in examined(signing.settings) if one.code == "checkpoint-key"]
    assert (found.level, found.text) == (
        Severity.WARNING,
        f"There is no checkpoint key: {tmp_path}/missing is missing.",
    )
    (tmp_path / "missing").write_text("no key")
    (found,) = [one for one in examined(signing.settings) if one.code == "checkpoint-key"]
    assert found.level is Severity.CRITICAL


def test_housekeeping_reports_a_missing_key(signing: Signing, tmp_path: Path) -> None:
    async def one(db: Database, settings: Settings) -> None:
        steps = [step for step in STEPS if step.name == "checkpoints"]
        await db.execute(KNOW, [step.name for step in steps])
        await db.execute("update housekeeping set due_at = now()")
        assert await Housekeeping(db, settings, steps).one()

    signing.given["checkpoint_key_file"] = tmp_path / "missing"
    signing.run(one)
    (row,) = signing.sql.rows("select last_good, last_error from housekeeping where step = 'checkpoints'")
    assert row["last_good"] is None
    assert "There is no signing key for checkpoints" in row["last_error"]
    told = {f"KEYRACK_{name}".upper(): str(value) for name, value in signing.given.items()}
    said = json.loads(CliRunner(env=told).invoke(application("status"), ["status", "--json"]).stdout)
    (step,) = [one for one in said["housekeeping"] if one["step"] == "checkpoints"]
    assert step["late"] and "housekeeping-late" in [finding["code"] for finding in said["findings"]]


def audit(signing: Signing, *words: object) -> Any:
    told = {f"KEYRACK_{name}".upper(): str(value) for name, value in signing.given.items()}
    return CliRunner(env=told).invoke(application("audit"), ["audit", *map(str, words)])
