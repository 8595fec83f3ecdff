"""Makes inclusion and consistency proofs of a log from its stored tiles."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from keyrack.changelog.transparency.merkle_proofs import additions, siblings, verify_inclusion
from keyrack.changelog.transparency.merkle_tiles import NoTile, Range, needed, root
from keyrack.changelog.transparency.merkle_tree import leaf_hash
from keyrack.db.connection import Statements

__all__ = ["NoTile", "consistency", "holds", "inclusion", "record_of", "root_of", "text", "texts"]

RECORD: LiteralString = "select record from change where customer_id = $1 and change_id = $2"
TILES: LiteralString = """
select t.level, t.place, t.hashes from unnest($3::smallint[], $4::bigint[]) w (level, place)
join change_tile t on t.customer_id = $1 and t.epoch = $2 and t.level = w.level and t.place = w.place
"""


async def record_of(statements: Statements, customer: int, number: int) -> bytes | None:
    """The record of a change; None if it is not stored."""
    return await statements.fetchval(RECORD, customer, number)


async def inclusion(statements: Statements, customer: int, epoch: UUID, size: int, index: int) -> list[bytes]:
    """The proof that a leaf, from 0, is in the tree of that size (RFC 9162, 2.1.3). Raises `NoTile`."""
    return await _roots(statements, customer, epoch, siblings(size, index))


async def consistency(statements: Statements, customer: int, epoch: UUID, size: int, first: int) -> list[bytes]:
    """The proof that the tree of that size begins with the `first` leaves (RFC 9162, 2.1.4). Raises `NoTile`."""
    return await _roots(statements, customer, epoch, additions(size, first))


async def root_of(statements: Statements, customer: int, epoch: UUID, size: int) -> bytes:
    """The root of the tree's first leaves. Raises `NoTile`."""
    return (await _roots(statements, customer, epoch, [(0, size)]))[0]


def holds(root: bytes, size: int, record: bytes, index: int, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows the record in the tree with this root."""
    return verify_inclusion(root, size, leaf_hash(record), index, proof)


def text(data: bytes) -> str:
    """A record or a hash for answers: in base64."""
    return base64.b64encode(data).decode()


def texts(hashes: Sequence[bytes]) -> list[str]:
    """The hashes of a proof for answers."""
    return [text(digest) for digest in hashes]


async def _roots(statements: Statements, customer: int, epoch: UUID, ranges: list[Range]) -> list[bytes]:
    places = list(needed(ranges))
    levels, numbers = [level for level, _ in places], [number for _, number in places]
    rows = await statements.fetch(TILES, customer, epoch, levels, numbers)
    tiles = {(row["level"], row["place"]): row["hashes"] for row in rows}
    return [root(leaves, tiles) for leaves in ranges]
