"""What is kept, what is forgotten, and what verifying finds."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.ops.backups.instance import House

pytestmark = pytest.mark.cluster


def test_what_a_kept_backup_needs_is_never_removed(house: House) -> None:
    """The oldest goes when there are too many, with the log before the oldest that is kept; that can be restored."""
    first = house.full
    with house.running():
        house.json("customer", "add", "Second Fleet")
        second = house.json("backup", "create", KEYRACK_BACKUP_KEEP="2")
        assert second["removed"] == []
        before = house.segments()
        house.json("customer", "add", "Third Fleet")
        (house.backups / "base" / "20200101T000000Z").mkdir()  # what a killed `create` has left
        third = house.json("backup", "create", KEYRACK_BACKUP_KEEP="2")
        assert third["removed"] == [first["name"]]
        listed = house.json("backup", "list")
        assert [backup["name"] for backup in listed["backups"]] == [second["name"], third["name"]]
        assert {path.name for path in (house.backups / "base").iterdir()} == {
            name for backup in (second, third) for name in (backup["name"], f"{backup['name']}.json")
        }
        assert before - house.segments()  # some went
        assert house.json("backup", "verify")["backups"] == [second["name"], third["name"]]
    drill = house.json("backup", "drill", second["name"])
    assert (drill["backup"], drill["tables"]["customer"]) == (second["name"], 3)
    drill = house.json("backup", "drill", second["name"], "--to", second["finished"])
    assert drill["tables"]["customer"] == 2


def test_verifying_finds_what_is_damaged(house: House) -> None:
    """A byte of a table, a byte of the log, a segment that is another one's."""
    note = house.backups / "base" / f"{house.full['name']}.json"
    before = json.loads(note.read_text())["verified"]
    assert house.json("backup", "verify", house.full["name"])["upToNow"] is False
    assert json.loads(note.read_text())["verified"] > before
    last = house.wal / f"{max(house.segments())}.gz"
    whole = last.read_bytes()
    last.write_bytes(whole[: len(whole) // 2])
    damaged = house.refused("backup", "verify")
    assert damaged.startswith(f"The WAL archive has a fault: {last.name} is damaged: ")
    log = gzip.decompress(whole)
    last.write_bytes(gzip.compress(log[:24] + b"12345678" + log[32:]))
    assert f"{last.name} contains another segment than its name says" in house.refused("backup", "verify")
    last.write_bytes(whole)
    table = next(house.backups.glob(f"base/{house.full['name']}/base/*/1259"))
    content = table.read_bytes()
    table.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    assert house.refused("backup", "verify").startswith(f"The backup {house.full['name']} is damaged: ")
