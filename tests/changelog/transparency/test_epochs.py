"""Epochs of a log: when and how a new one begins, and the proofs of the previous one."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import pytest
from typer.testing import CliRunner

from keyrack.changelog.feed import load_extent
from keyrack.changelog.record_format import decode, hash_of
from keyrack.changelog.transparency import epochs
from keyrack.changelog.transparency.epochs import JUMP
from keyrack.changelog.transparency.export_format import Head
from keyrack.changelog.visibility_watermark import VisibilityWatermark
from keyrack.cli.main import application
from keyrack.core.errors import Gone
from tests.changelog.outbox import IDS, WRITE, House, house
from tests.support.servers import migrated_database

CHANGES = "select * from change where customer_id = $1 order by change_id"


@pytest.fixture(scope="module")
def own(database_server: str) -> Iterator[str]:
    """A database without other sequencers."""
    with migrated_database(database_server) as dsn:
        yield dsn


def audit(dsn: str, *words: object) -> Any:
    result = CliRunner(env={"KEYRACK_DATABASE_URL": dsn}).invoke(application("audit"), ["audit", *map(str, words)])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in words else result.stdout


async def write(home: House, customer: int, *versions: int) -> None:
    for version in versions:
        await home.db.fetchval(WRITE, customer, "1", version)


async def number(home: House) -> int:
    return await home.numbering().sequence(VisibilityWatermark(home.db))


async def begin(home: House) -> None:
    async with home.db.transaction() as connection:
        await epochs.begin(connection, "restore")


def test_a_new_epoch_names_the_end_of_the_one_before(own: str, tmp_path: Path) -> None:
    """Its numbers are new, it precedes waiting changes, and both epochs verify."""

    async def main() -> tuple[int, UUID, UUID]:
        async with house(own) as home:
            customer, nobody = next(IDS), next(IDS)
            await write(home, customer, 1, 2, 3)
            assert await number(home) == 3
            old = await load_extent(home.db, customer)
            await write(home, customer, 4)
            await write(home, nobody, 1)
            await begin(home)
            between = await load_extent(home.db, customer)
            assert (between.oldest, between.newest) == (3 + JUMP + 1, 3 + JUMP)
            assert await number(home) == 3
            new = await load_extent(home.db, customer)
            assert new.epoch not in (None, old.epoch) and new.epoch == between.epoch
            assert (new.oldest, new.newest) == (3 + JUMP + 1, 3 + JUMP + 2)
            rows = await home.db.fetch(CHANGES, customer)
            assert [row["change_id"] for row in rows] == [1, 2, 3, new.oldest, new.newest]
            begun = rows[3]
            assert (begun["kind"], begun["resource"], begun["resource_id"]) == ("log.begun", "log", str(customer))
            assert begun["before"] == {
                "epoch": str(old.epoch), "newest": 3, "hash": base64.b64encode(hash_of(rows[2]["record"])).decode(),
            }  # fmt: skip
            assert begun["after"] == {"epoch": str(new.epoch), "why": "restore"}
            assert begun["who"] == {"type": "system", "name": "numbering"}
            assert {decode(row["record"]).epoch for row in rows[3:]} == {new.epoch}
            assert rows[4]["after"] == {"version": 4}
            # every cursor of the old epoch is gone, with or without the epoch
            for place, epoch in ((3, old.epoch), (3, None), (0, None), (5, old.epoch), (new.newest, old.epoch)):
                with pytest.raises(Gone):
                    new.check(place, epoch)
            new.check(new.oldest - 1, new.epoch)
            # a log without a change has no epoch to end
            assert (await load_extent(home.db, nobody)).oldest == 1
            assert [row["change_id"] for row in await home.db.fetch(CHANGES, nobody)] == [1]
            assert old.epoch is not None and new.epoch is not None
            return customer, old.epoch, new.epoch

    customer, old, new = asyncio.run(main())
    told = audit(own, "verify", "--customer", customer, "--json")
    assert (told["epoch"], told["behind"], told["last"], told["size"]) == (str(new), JUMP + 3, JUMP + 5, 2)
    assert [(one["epoch"], one["last"]) for one in told["otherEpochs"]] == [(str(old), 3)]
    told = audit(own, "verify", "--customer", customer, "--epoch", old, "--json")
    assert (told["epoch"], told["behind"], told["last"], told["size"]) == (str(old), 0, 3, 3)
    for epoch, last in ((old, 3), (new, JUMP + 5)):
        file = tmp_path / f"{epoch}.jsonl"
        audit(own, "export", "--customer", customer, "--epoch", epoch, "--to", file)
        head = Head.read(file.read_bytes().splitlines()[0])
        assert (head.epoch, head.last) == (epoch, last)
        assert audit(own, "verify", file, "--json")["last"] == last
    said = audit(own, "verify", "--customer", customer)
    assert f"Another epoch of this log ended with number 3. Verify it with --epoch {old}." in said


def test_an_epoch_without_changes_is_skipped(own: str) -> None:
    """After two restores without a worker, the first change names the last epoch with changes.

    It also names the epoch that it begins.
    """

    async def main() -> None:
        async with house(own) as home:
            customer = next(IDS)
            await write(home, customer, 1)
            await number(home)
            old = await load_extent(home.db, customer)
            await begin(home)
            await begin(home)
            assert await number(home) == await home.db.fetchval("select count(*) from change_log")
            rows, new = await home.db.fetch(CHANGES, customer), await load_extent(home.db, customer)
            assert [row["change_id"] for row in rows] == [1, 2 * JUMP + 2]
            assert rows[1]["before"]["epoch"] == str(old.epoch) and rows[1]["after"]["epoch"] == str(new.epoch)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("timeline = timeline - 1, is_synchronous = false", "promotion"),
        ("timeline = timeline - 1, is_synchronous = true", None),
        ("is_synchronous = true", None),
        ("system = system - 1, is_synchronous = true", "server"),
    ],
)
def test_the_epoch_changes_with_the_server_or_history(found: LiteralString, why: str | None, own: str) -> None:
    """A promotion begins a new epoch unless commits waited for the standby; another server always does."""

    async def main() -> None:
        async with house(own) as home:
            customer = next(IDS)
            numbering, fence = home.numbering(), VisibilityWatermark(home.db)
            await write(home, customer, 1)
            await numbering.sequence(fence)
            old = await load_extent(home.db, customer)
            await home.db.execute("update change_server set " + found)
            await write(home, customer, 2)
            await numbering.sequence(fence)
            new = await load_extent(home.db, customer)
            begun = [row for row in await home.db.fetch(CHANGES, customer) if row["kind"] == "log.begun"]
            assert [row["after"]["why"] for row in begun] == ([why] if why else [])
            assert (new.epoch != old.epoch, new.newest) == ((True, JUMP + 3) if why else (False, 2))
            await write(home, customer, 3)  # and once only
            await numbering.sequence(fence)
            assert (await load_extent(home.db, customer)).as_json() == {**new.as_json(), "newest": new.newest + 1}

    asyncio.run(main())


def test_every_worker_numbers_the_beginning_of_an_epoch_first(own: str) -> None:
    """A sequencer that is far ahead does not skip `log.begun` at the beginning of the outbox."""

    async def main() -> None:
        async with house(own, sequencer_batch_rows=1) as home:
            customer, other = next(IDS), next(IDS)
            numbering, fence = home.numbering(), VisibilityWatermark(home.db)
            await write(home, customer, 1)
            await write(home, other, 1)
            assert await numbering.sequence(fence) >= 2
            await begin(home)
            await write(home, other, 2)
            await numbering.sequence(fence)
            for one in (customer, other):
                assert [row["kind"] for row in await home.db.fetch(CHANGES, one)][1] == "log.begun"

    asyncio.run(main())
