"""`keyrack audit verify`: an exported log without a database, and all ways to tamper with it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as at_most
from hypothesis import strategies as st
from typer.testing import CliRunner

from keyrack.changelog.record_format import FIRST, Record, decode, digest, encode, hash_of
from keyrack.changelog.transparency.export_format import LINE, ExportedChange, Head, NotAnExport
from keyrack.changelog.transparency.export_reader import PIECE
from keyrack.changelog.transparency.export_verifier import Mismatch, name_of, verify
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.transparency.signed_notes import Checkpoint, signed
from keyrack.cli.main import application
from tests.changelog.outbox import IDS, house
from tests.changelog.transparency.vectors import BEGIN, LOG, ORIGIN, TIME, checkpoint, erased, head, log, salt, tree
from tests.docs.code_blocks import block
from tests.support.servers import SCRIPT_DEADLINE, Sql, migrated_database

WHOLE = log()
KEY = ["--key", str(LOG.key)]


@pytest.fixture
def audit(tmp_path: Path) -> Any:
    """Run the command on these lines and checkpoints. Returns its JSON, or its standard error if it fails."""

    def run(lines: list[object], *options: object, notes: tuple[bytes, ...] = (), fails: bool = False) -> Any:
        file = tmp_path / "log.jsonl"
        file.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        for number, note in enumerate(notes):
            (tmp_path / f"{number}.note").write_bytes(note)
            options = (*options, "--checkpoint", tmp_path / f"{number}.note")
        words = ["audit", "verify", str(file), *map(str, options), *([] if fails else ["--json"])]
        result = CliRunner().invoke(application("audit"), words)
        assert bool(result.exit_code) is fails, result.output
        return result.stderr if fails else json.loads(result.stdout)

    return run


def lines(changes: list[ExportedChange], behind: int = 0) -> list[object]:
    return [head(changes, behind), *changes[behind:]]


def test_an_intact_log_verifies(audit: Any) -> None:
    told = audit(lines(WHOLE), *KEY, "--key", TIME.key, notes=(checkpoint(WHOLE[:2]), checkpoint(WHOLE)))
    assert told == {
        "valid": True, "customerId": 3, "epoch": "0d5e8c1a-5b1f-4c8e-9a54-2f7d6c3b1a00", "behind": 0, "last": 5,
        "size": 5, "root": tree(WHOLE).root.hex(), "erased": 0, "proven": 5, "checkpoints": 2,
        "checkpointTime": "2026-11-23T14:06:06Z", "withinReach": False, "otherKeys": 0,
        "otherEpochs": [], "tables": None,
    }  # fmt: skip


def test_an_empty_log_and_one_without_its_beginning(audit: Any) -> None:
    assert audit(lines([]), *KEY, notes=(checkpoint([]),))["proven"] == 0
    told = audit(lines(WHOLE, 2), *KEY, notes=(checkpoint(WHOLE[:2]), checkpoint(WHOLE)))
    assert (told["behind"], told["proven"], told["root"]) == (2, 5, tree(WHOLE).root.hex())


def test_an_erasure_leaves_the_proof(audit: Any) -> None:
    gone = [WHOLE[0], erased(WHOLE[1], "person"), erased(WHOLE[2], "who", "content", "person"), *WHOLE[3:]]
    told = audit(lines(gone), *KEY, notes=(checkpoint(WHOLE),))
    assert (told["erased"], told["proven"], told["root"]) == (2, 5, tree(WHOLE).root.hex())


def test_the_text_output(tmp_path: Path) -> None:
    file, note = tmp_path / "log.jsonl", tmp_path / "note"
    file.write_text("".join(f"{line}\n" for line in lines([erased(WHOLE[0], "who"), *WHOLE[1:]])), "utf-8")
    note.write_bytes(checkpoint(WHOLE[:3]))
    words = ["audit", "verify", "-", *KEY, "--key", str(TIME.key), "--checkpoint", str(note)]
    said = CliRunner().invoke(application("audit"), words, input=file.read_bytes())
    assert said.stdout.splitlines() == [
        "Customer 3: 5 changes after number 0 are consistent.",
        "Parts of 1 changes were erased. The proof is still valid.",
        "The newest checkpoint confirms them up to number 3, signed 2026-11-23 14:06:06 UTC.",
        "Later changes are newer than the checkpoint, and could have been rewritten.",
    ]
    said = CliRunner().invoke(application("audit"), ["audit", "verify", str(file)])
    assert "No checkpoint was compared: the author of the file could have made up all of it." in said.stdout


def test_the_command_of_the_page(tmp_path: Path) -> None:
    """docs/log-verification.md: `verify` prints `verified`."""
    (tmp_path / "log.jsonl").write_text("".join(f"{line}\n" for line in lines(WHOLE)), "utf-8")
    (tmp_path / "newest.note").write_bytes(checkpoint(WHOLE))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    keys = {"PATH": path, "LOG_KEY": str(LOG.key), "TIME_KEY": str(TIME.key)}
    command = ["bash", "-euo", "pipefail", "-c", block("docs/log-verification.md", "verify").text]
    ran = subprocess.run(
        command, cwd=tmp_path, env=os.environ | keys, capture_output=True, text=True, timeout=SCRIPT_DEADLINE
    )
    assert (ran.stderr, ran.stdout) == ("", block("docs/log-verification.md", "verified").text)


# Tampering without new records: the records alone detect it


def altered(number: int, **members: Any) -> Callable[[], list[object]]:
    return lambda: lines([replace(one, **members) if one.id == number else one for one in WHOLE])


def part(number: int, name: str, value: Any, salted: bytes | None) -> Callable[[], list[object]]:
    change = WHOLE[number - 1]
    return altered(number, parts={**change.parts, name: value}, salts={**change.salts, name: salted})


def record(number: int, **members: Any) -> Callable[[], list[object]]:
    return altered(number, record=encode(replace(decode(WHOLE[number - 1].record), **members)))


@pytest.mark.parametrize(
    ("done", "number", "why"),
    [
        (altered(2, kind="user.created"), 2, "its `kind` differs from its record"),
        (altered(2, resource="car"), 2, "its `resource` differs"),
        (altered(2, resource_id="22"), 2, "its `resourceId` differs"),
        (altered(2, groups=[9, 4]), 2, "its `groups` differs"),
        (altered(4, at=BEGIN), 4, "its `time` differs"),
        (altered(4, recorded_at=BEGIN), 4, "its `recordedTime` differs"),
        (altered(1, id=2), 1, "number 2 is in its place"),
        (
            part(1, "content", {"before": None, "after": {"name": "Other"}}, salt(1, "content")),
            1,
            "its part `content` does not match",
        ),
        (part(1, "who", {"type": "operator"}, salt(1, "who")), 1, "its part `who` does not match"),
        (part(2, "person", WHOLE[1].parts["person"], bytes(32)), 2, "its part `person` does not match"),
        (part(2, "person", {"after": {}}, None), 2, "its part `person` has no salt"),
        (part(2, "person", None, salt(2, "person")), 2, "its part `person` does not match"),
        (
            part(1, "person", {"after": {}}, salt(1, "person")),
            1,
            "it has a part `person`, but its record has no digest of one",
        ),
        (part(1, "person", None, salt(1, "person")), 1, "it has a part `person`"),
        (altered(3, record=WHOLE[2].record[:-1]), 3, "its record is invalid"),
        (altered(3, record=b""), 3, "its record is invalid"),
        (altered(3, record=WHOLE[3].record), 3, "its record is that of number 4"),
        (record(3, customer=4), 3, "its record is of customer 4's log"),
        (record(2, previous=FIRST), 2, "does not contain the hash"),
        (record(2, kind="user.created"), 2, "its `kind` differs"),
        (record(1, person=bytes(32)), 2, "does not contain the hash"),
        (lambda: lines([*WHOLE[:2], *WHOLE[3:]]), 3, "number 4 is in its place"),
        (lambda: lines([WHOLE[0], WHOLE[0], *WHOLE[1:]]), 2, "number 1 is in its place"),
        (lambda: lines([WHOLE[1], WHOLE[0], *WHOLE[2:]]), 1, "number 2 is in its place"),
        (lambda: lines(WHOLE)[:-1], 5, "it is missing: the log must end with 5"),
        (lambda: [head(WHOLE, 2), *WHOLE], 3, "number 1 is in its place"),
        (
            lambda: [replace(head(WHOLE, 2), hash=FIRST), *WHOLE[2:]],
            3,
            "does not contain the hash of the record of number 2",
        ),
    ],
)
def test_the_first_invalid_change_is_named(done: Any, number: int, why: str, audit: Any) -> None:
    said = audit(done(), fails=True)
    assert said.startswith(f"keyrack: Change {number}: "), said
    assert why in said


def test_the_json_output_names_the_invalid_change(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(f"{line}\n" for line in altered(2, kind="x")()), "utf-8")
    result = CliRunner().invoke(application("audit"), ["audit", "verify", str(file), "--json"])
    told = {"valid": False, "change": 2, "why": "its `kind` differs from its record"}
    assert (result.exit_code, json.loads(result.stdout)) == (1, told)


def test_time_does_not_run_backwards(audit: Any) -> None:
    assert "recorded before the one before it" in audit(lines(remade(3, recorded_at=BEGIN)), fails=True)


# Tampering with new records from there on: only a checkpoint detects it


def remade(number: int, **members: Any) -> list[ExportedChange]:
    """The log with other members of a change, and new records from there on."""
    changes, previous = WHOLE[: number - 1], WHOLE[number - 2].record if number > 1 else b""
    before = hash_of(previous) if previous else FIRST
    for one in WHOLE[number - 1 :]:
        changed = replace(one, **members) if one.id == number else one
        digests = {name: getattr(decode(one.record), name) for name in ("who", "content", "person")}
        for name, value in changed.parts.items():
            salted = changed.salts[name]
            digests[name] = digest(name, salted, value) if salted else digests[name]
        old = decode(one.record)
        anew = encode(
            Record(old.customer, old.epoch, changed.id, changed.at, changed.recorded_at, changed.kind, changed.resource,
                   changed.resource_id, changed.groups, before, **digests)
        )  # fmt: skip
        changes.append(replace(changed, record=anew))
        before = hash_of(anew)
    return changes


def renumbered(changes: list[ExportedChange]) -> list[ExportedChange]:
    """These changes with new numbers and records."""
    found, before = list[ExportedChange](), FIRST
    for number, one in enumerate(changes, start=1):
        anew = encode(replace(decode(one.record), number=number, previous=before, recorded_at=BEGIN))
        found.append(replace(one, id=number, recorded_at=BEGIN, record=anew))
        before = hash_of(anew)
    return found


FORGED = {
    "altered": remade(2, kind="user.created"),
    "who did it": remade(1, parts={**WHOLE[0].parts, "who": {"type": "manager", "id": "8"}}),
    "removed": renumbered([*WHOLE[:1], *WHOLE[2:], WHOLE[4]]),
    "inserted": renumbered([WHOLE[0], *WHOLE]),
    "reordered": renumbered([WHOLE[1], WHOLE[0], *WHOLE[2:]]),
}


@pytest.mark.parametrize("forged", FORGED)
def test_only_a_checkpoint_detects_a_rewritten_log(forged: str, audit: Any) -> None:
    changes = FORGED[forged]
    assert audit(lines(changes))["proven"] is None
    said = audit(lines(changes), *KEY, notes=(checkpoint(WHOLE),), fails=True)
    assert said.startswith("keyrack: Change 1: it, or one up to 5, is not what it was at the checkpoint of 5 records")


def test_checkpoints_narrow_down_the_altered_change(audit: Any) -> None:
    notes = (checkpoint(WHOLE), checkpoint(WHOLE[:2]), checkpoint(WHOLE[:4]))
    said = audit(lines(remade(3, kind="assignment.changed")), *KEY, notes=notes, fails=True)
    assert said.startswith("keyrack: Change 3: it, or one up to 4, is not what it was at the checkpoint of 4 records")


def test_a_truncated_end_is_detected(audit: Any) -> None:
    said = audit(lines(WHOLE[:4]), *KEY, notes=(checkpoint(WHOLE),), fails=True)
    assert said.startswith("keyrack: Change 5: it is missing: there is a checkpoint of 5 records.")


@at_most(max_examples=40)
@given(number=st.integers(1, 5), other=st.text(min_size=1), size=st.integers(1, 5))
def test_a_checkpoint_covers_exactly_the_records_before_it(number: int, other: str, size: int) -> None:
    changes = remade(number, kind=f"{other}!")
    seen = Checkpoint(ORIGIN, size, tree(WHOLE[:size]).root)
    export = (str(line).encode() for line in lines(changes))
    if number > size:
        assert verify(export, [seen]).proven == size
    else:
        with pytest.raises(Mismatch, match=f"at the checkpoint of {size} records"):
            verify(export, [seen])


# Checkpoints that cannot be compared


def test_a_checkpoint_needs_a_trusted_key(audit: Any) -> None:
    note = checkpoint(WHOLE)
    assert "Pass the key with --key" in audit(lines(WHOLE), notes=(note,), fails=True)
    stranger = ["--key", str(replace(LOG.key, name="stranger"))]
    assert "no known key has signed the note" in audit(lines(WHOLE), *stranger, notes=(note,), fails=True)
    spoilt = note.replace(b"\n5\n", b"\n4\n")
    assert "is invalid" in audit(lines(WHOLE), *KEY, notes=(spoilt,), fails=True)
    assert "is not a trusted checkpoint" in audit(lines(WHOLE), *KEY, notes=(b"no note",), fails=True)
    assert "--key: " in audit(lines(WHOLE), "--key", "no+key", fails=True)
    text = bytes(signed("only a text\n", LOG, at=0))
    assert "a checkpoint has lines" in audit(lines(WHOLE), *KEY, notes=(text,), fails=True)


def test_a_checkpoint_of_another_log_is_rejected(audit: Any) -> None:
    def of(origin: str) -> bytes:
        return bytes(signed(str(Checkpoint(origin, 5, tree(WHOLE).root)), LOG, at=0))

    for other in (ORIGIN.replace("/3/", "/13/"), ORIGIN[:-1] + "1", "x" + ORIGIN.partition("/")[2]):
        assert "the checkpoint is of the log" in audit(lines(WHOLE), *KEY, notes=(of(other),), fails=True)
    early = audit(lines(WHOLE, 2), *KEY, notes=(checkpoint(WHOLE[:1]),), fails=True)
    assert "the checkpoint is of 1 records, but the export begins after 2" in early


def test_a_missing_file_is_reported(audit: Any, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    result = CliRunner().invoke(application("audit"), ["audit", "verify", str(missing)])
    assert result.stderr == f"keyrack: {missing} cannot be read: No such file or directory.\n"
    assert "cannot be read" in audit(lines(WHOLE), *KEY, "--checkpoint", missing, fails=True)


# Invalid exports


@given(behind=st.integers(0, 5))
def test_lines_are_read_as_they_were_written(behind: int) -> None:
    first, *changes = lines(WHOLE, behind)
    assert Head.read(str(first).encode()) == first
    for change in changes:
        assert ExportedChange.read(str(change).encode()) == change


HEAD, LINE_OF = json.loads(str(head(WHOLE, 1))), json.loads(str(WHOLE[1]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"format": "other"}, {"version": 2}, {"customerId": "x"}, {"epoch": "x"}, {"epoch": 1}, {"hash": "AAAA"},
        {"hash": "*"}, {"tree": "AAAA"}, {"behind": None}, {"last": []},
    ],
)  # fmt: skip
def test_an_invalid_first_line_is_rejected(wrong: dict[str, Any], audit: Any) -> None:
    assert "cannot be verified: " in audit([json.dumps(HEAD | wrong)], fails=True)
    with pytest.raises(NotAnExport):
        Head.read(json.dumps({name: value for name, value in HEAD.items() if name not in wrong}).encode())


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "x"}, {"time": "yesterday"}, {"time": 5}, {"recordedTime": None}, {"groups": 7}, {"groups": ["x"]},
        {"salts": None}, {"salts": {"who": None}}, {"salts": {**LINE_OF["salts"], "who": "AAAA"}}, {"record": "*"},
        {"record": None}, {"salts": []},
    ],
)  # fmt: skip
def test_an_invalid_change_is_rejected(wrong: dict[str, Any], audit: Any) -> None:
    said = audit([head(WHOLE, 1), json.dumps(LINE_OF | wrong)], fails=True)
    assert "cannot be verified: line 2: it is not a change: " in said
    with pytest.raises(NotAnExport):
        ExportedChange.read(json.dumps({name: value for name, value in LINE_OF.items() if name not in wrong}).encode())


@pytest.mark.parametrize("line", [b"", b"\n", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b"1e999999999"])
def test_malformed_lines_are_rejected(line: bytes) -> None:
    for read in (Head.read, ExportedChange.read):
        with pytest.raises(NotAnExport):
            read(line)


def test_a_huge_number_costs_no_memory(audit: Any) -> None:
    for number in ("1e999999999", "1e150001"):
        line = str(WHOLE[0]).replace("1234.5", number)
        assert audit([head(WHOLE), line], fails=True).startswith("keyrack: Change 1: its part `content` does not match")
        assert "cannot be verified" in audit([str(head(WHOLE)).replace('"last":5', f'"last":{number}')], fails=True)


def test_the_length_of_a_line_is_limited(audit: Any) -> None:
    said = audit([head(WHOLE), "x" * (LINE + 1)], fails=True)
    assert f"line 2 has more than {LINE} bytes" in said


def test_verification_does_not_change_the_head() -> None:
    whole = head(WHOLE, 2)
    export = [str(whole).encode(), *(str(change).encode() for change in WHOLE[2:])]
    assert verify(iter(export), []).tree == tree(WHOLE)
    assert whole.tree == Tree.read(base64.b64decode(json.loads(str(whole))["tree"]))


# Logs in a database, and tampering with all its rights

SOMEBODY = {"type": "manager", "id": "7", "name": "anna", "address": "192.0.2.7"}
PEOPLE = [
    ("user.created", "1", None, {"emailAddress": "zoë@example.com", "type": "Normal"}),
    ("car.created", "17", None, {"name": "Kombi", "odometer": 1234.5, "range": 1e22, "ratio": 0.1, "boxes": [1, 2]}),
    ("user.updated", "1", {"emailAddress": "zoë@example.com"}, {"emailAddress": "other@example.com"}),
    ("car.updated", "17", {"name": "Kombi"}, {"name": None}),
    ("car.deleted", "17", {"name": None, "boxes": [1, 2]}, None),
]
TELL = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, groups, before, after)
values ($1, $2, $3, $4, $5, '{4,9}', $6, $7)
"""


MANY = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, after)
select $1, 'car.updated', 'car', n::text, '{"type": "system"}', jsonb_build_object('n', n) from generate_series(1, $2) n
"""


async def numbered(dsn: str, customer: int) -> None:
    async with house(dsn) as home:
        for kind, id, before, after in PEOPLE:
            await home.db.execute(TELL, customer, kind, kind.partition(".")[0], id, SOMEBODY, before, after)
    await empty(dsn)


async def empty(dsn: str) -> None:
    """Wait until all changes have their numbers."""
    async with house(dsn) as home, home.workers(1):
        pass


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    """A database without other sequencers."""
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def own_sql(own: str) -> Iterator[Sql]:
    statements = Sql(own)
    yield statements
    statements.close()


@pytest.fixture
def logged(own: str) -> int:
    """A customer with a log of five changes."""
    customer = next(IDS)
    asyncio.run(numbered(own, customer))
    return customer


@pytest.fixture
def exported(own: str, tmp_path: Path) -> Any:
    def run(*options: object) -> list[str]:
        file = tmp_path / "exported.jsonl"
        file.unlink(missing_ok=True)
        words = ["audit", "export", *map(str, options), "--to", str(file), "--json"]
        result = CliRunner(env={"KEYRACK_DATABASE_URL": own}).invoke(application("audit"), words)
        assert result.exit_code == 0, result.output
        found = file.read_text("utf-8").splitlines()
        assert json.loads(result.stdout) == {"changes": len(found) - 1, "file": str(file)}
        assert file.stat().st_mode & 0o777 == 0o600
        return found

    return run


@pytest.fixture
def stored(own: str) -> Any:
    """Run the command on the database. Returns its JSON, or its standard error if it fails."""

    def run(*options: object, fails: bool = False) -> Any:
        words = ["audit", "verify", *map(str, options), *([] if fails else ["--json"])]
        result = CliRunner(env={"KEYRACK_DATABASE_URL": own}).invoke(application("audit"), words)
        assert bool(result.exit_code) is fails, result.output
        return result.stderr if fails else json.loads(result.stdout)

    return run


def seen(export: list[str]) -> tuple[bytes, ...]:
    """A checkpoint of all changes of an export, as if it had been published."""
    first, *changes = (line.encode() for line in export)
    found = Head.read(first)
    root = Tree.of(leaf_hash(ExportedChange.read(line).record) for line in changes).root
    text = str(Checkpoint(f"keyrack.example.com/{name_of(found.customer, found.epoch)}", found.last, root))
    return (bytes(signed(text, LOG, at=0)),)


def test_a_numbered_log_is_exported_and_verified(logged: int, exported: Any, audit: Any) -> None:
    export = exported("--customer", logged)
    told = audit(export, *KEY, notes=seen(export))
    assert (told["customerId"], told["last"], told["proven"], told["erased"]) == (logged, 5, 5, 0)
    changes = [ExportedChange.read(line.encode()) for line in export[1:]]
    assert [change.kind for change in changes] == [kind for kind, *_ in PEOPLE]
    assert changes[0].parts == {
        "who": SOMEBODY, "content": {"before": None, "after": {"type": "Normal"}},
        "person": {"after": {"emailAddress": "zoë@example.com"}},
    }  # fmt: skip


def test_personal_data_are_erased_and_the_rest_verifies(logged: int, exported: Any, audit: Any, own_sql: Sql) -> None:
    notes = seen(exported("--customer", logged))
    own_sql.execute("update change set person = null, person_salt = null where customer_id = $1", logged)
    export = exported("--customer", logged)
    assert "example.com" not in "".join(export)
    told = audit(export, *KEY, notes=notes)
    assert (told["erased"], told["proven"]) == (2, 5)


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (
            'update change set after = \'{"name": "Other"}\' where change_id = 4',
            "Change 4: its part `content` does not match",
        ),
        (
            'update change set who = who || \'{"name": "hanna"}\' where change_id = 3',
            "Change 3: its part `who` does not match",
        ),
        ("update change set content_salt = null where change_id = 4", "Change 4: its part `content` has no salt"),
        ("update change set groups = '{9}' where change_id = 2", "Change 2: its `groups` differs"),
        ("update change set record = record || '\\x00' where change_id = 2", "Change 2: its record is invalid"),
        ("delete from change where change_id = 2", "Change 2: number 3 is in its place"),
        ("delete from change where change_id = 1", "Change 1: number 2 is in its place"),
        ("delete from change where change_id = 5", "Change 5: it is missing: the log must end with 5"),
        (
            "update change set change_id = 5 - change_id, recorded_at = recorded_at + change_id * interval '1 us'"
            " where change_id in (2, 3)",
            "Change 2: its record is that of number 3",
        ),
    ],
)
def test_alterations_in_the_database_are_detected(
    done: str, said: str, logged: int, exported: Any, audit: Any, stored: Any, own_sql: Sql
) -> None:
    notes = seen(exported("--customer", logged))
    own_sql.execute(f"{done} and customer_id = {logged}")
    assert said in audit(exported("--customer", logged), *KEY, notes=notes, fails=True)
    assert said in stored("--customer", logged, fails=True)


def test_a_checkpoint_detects_a_log_truncated_with_its_number(
    logged: int, exported: Any, audit: Any, own_sql: Sql
) -> None:
    notes = seen(exported("--customer", logged))
    own_sql.execute("delete from change where change_id = 5 and customer_id = $1", logged)
    own_sql.execute("update change_log set last_id = 4 where customer_id = $1", logged)
    export = exported("--customer", logged)
    assert audit(export)["last"] == 4
    assert "Change 5: it is missing: there is a checkpoint of 5" in audit(export, *KEY, notes=notes, fails=True)


def test_a_log_whose_beginning_was_dropped(logged: int, exported: Any, audit: Any, own_sql: Sql) -> None:
    notes = seen(exported("--customer", logged))
    own_sql.execute("delete from change where change_id < 3 and customer_id = $1", logged)
    own_sql.execute("update change_log set oldest_id = 3 where customer_id = $1", logged)
    export = exported("--customer", logged)
    told = audit(export)
    assert (told["behind"], told["last"], told["size"], told["root"]) == (2, 5, None, None)
    assert "no checkpoint can be compared" in audit(export, *KEY, notes=notes, fails=True)
    own_sql.execute("delete from change where customer_id = $1", logged)
    own_sql.execute("update change_log set oldest_id = 6 where customer_id = $1", logged)
    told = audit(exported("--customer", logged), *KEY, notes=notes)
    assert (told["behind"], told["last"], told["proven"]) == (5, 5, 5)


def test_changes_of_several_classes_stand_in_one_order(
    logged: int, exported: Any, audit: Any, own: str, own_sql: Sql
) -> None:
    own_sql.execute("insert into customer (customer_id, name, changes_days) values ($1, 'Many', 3660)", logged)
    asyncio.run(numbered(own, logged))
    own_sql.execute("update customer set changes_days = 100 where customer_id = $1", logged)
    asyncio.run(numbered(own, logged))
    assert own_sql.value("select count(distinct class) from change where customer_id = $1", logged) == 3
    assert audit(exported("--customer", logged))["last"] == 17


def test_a_log_is_read_in_batches(own: str, exported: Any, audit: Any, own_sql: Sql) -> None:
    customer, count = next(IDS), PIECE + 50
    own_sql.execute(MANY, customer, count)
    asyncio.run(empty(own))
    export = exported("--customer", customer)
    assert audit(export, *KEY, notes=seen(export))["proven"] == count


def test_the_installation_has_a_log_of_its_own(own: str, exported: Any, audit: Any, stored: Any) -> None:
    asyncio.run(numbered(own, 0))
    export = exported("--installation")
    assert audit(export)["customerId"] == 0
    assert stored("--installation") == audit(export)


def test_a_log_is_verified_in_the_database(logged: int, exported: Any, audit: Any, stored: Any, tmp_path: Path) -> None:
    export = exported("--customer", logged)
    (tmp_path / "newest").write_bytes(seen(export)[0])
    told = stored("--customer", logged, *KEY, "--checkpoint", tmp_path / "newest")
    assert told == audit(export, *KEY, notes=seen(export))


def test_one_log_is_verified_at_a_time(logged: int, stored: Any, tmp_path: Path) -> None:
    for options in ([], ["--customer", logged, "--installation"], [tmp_path, "--customer", logged]):
        assert "Choose one log to verify" in stored(*options, fails=True)
    assert "There is no change log" in stored("--customer", 999_999_999, fails=True)
    assert "There is no customer" in stored("--customer", "nobody", fails=True)


def test_failed_exports_leave_no_file(own: str, logged: int, tmp_path: Path) -> None:
    def refused(*options: object) -> str:
        words = ["audit", "export", *map(str, options)]
        result = CliRunner(env={"KEYRACK_DATABASE_URL": own}).invoke(application("audit"), words)
        assert result.exit_code == 1
        return result.stderr

    there = tmp_path / "there"
    there.write_text("mine")
    assert "already exists" in refused("--customer", logged, "--to", there)
    assert there.read_text() == "mine"
    new = tmp_path / "new"
    assert "There is no change log" in refused("--customer", 999_999_999, "--to", new)
    assert "Choose a log with" in refused("--to", new)
    assert "Choose a log with" in refused("--customer", logged, "--installation", "--to", new)
    assert "cannot be written: No such file or directory" in refused(
        "--customer", logged, "--to", tmp_path / "no" / "x"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
