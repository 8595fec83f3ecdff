"""Extends the stored trees of logs by new records, and compares them with checkpoints.

It reads new records once, in batches, and hashes them again. It compares the tree with the sequencer's tree of the log
(`change_log.tree`) and with the newest checkpoint. So it detects a record that was altered before its checkpoint, a
rewritten log and one that has shrunk. The log is then rejected, and its stored tree stays unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import LiteralString
from uuid import UUID

from keyrack.changelog.transparency.merkle_tiles import Growth, NoTile, Place, needed, root, unfinished
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.db.connection import Connection, Row, Statements

PIECE = 5_000  # records per transaction
LOGS = 500  # logs per transaction
LONG_AGO = datetime.min.replace(tzinfo=UTC)

# Logs that have grown, changed or were rejected; with a signing key ($4), also those whose tree is not signed. Newest
# checkpoints are looked up only for these
DUE: LiteralString = """
select l.customer_id, l.epoch, l.last_id, l.tree as told, coalesce(t.edge, '') as edge, t.recorded_at, t.refused,
  c.size as before, c.root, c.note, now() as now
from change_log l
left join change_tree t on t.customer_id = l.customer_id and t.epoch = l.epoch
left join lateral (
  select c.size, c.root, c.note, c.at from change_checkpoint c
  where c.customer_id = l.customer_id and c.epoch = l.epoch order by c.size desc limit 1) c on true
where l.customer_id > $1 and ($5::integer is null or l.customer_id = $5)
  and (coalesce(t.edge, '') <> l.tree or t.refused is not null or ($4 and t.signed is distinct from t.size))
  and (c.at is null or c.at <= now() - make_interval(secs => $2))
order by l.customer_id limit $3
"""
RECORDS: LiteralString = """
select d.customer_id, c.change_id, c.recorded_at, c.record
from unnest($1::integer[], $2::bigint[], $3::bigint[], $4::timestamptz[]) d (customer_id, behind, last, since)
join change c on c.customer_id = d.customer_id and c.change_id > d.behind and c.change_id <= d.last
  and c.recorded_at >= d.since
order by d.customer_id, c.change_id
"""
TILES: LiteralString = """
select t.customer_id, t.level, t.place, t.hashes from change_tile t
join unnest($1::integer[], $2::uuid[], $3::smallint[], $4::bigint[]) w (customer_id, epoch, level, place)
  using (customer_id, epoch, level, place)
"""
KEEP_TILES: LiteralString = """
insert into change_tile (customer_id, epoch, level, place, hashes)
select * from unnest($1::integer[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bytea[])
on conflict (customer_id, epoch, level, place) do update set hashes = excluded.hashes
"""
KEEP: LiteralString = """
insert into change_tree (customer_id, epoch, size, edge, recorded_at)
select * from unnest($1::integer[], $2::uuid[], $3::bigint[], $4::bytea[], $5::timestamptz[])
on conflict (customer_id, epoch) do update set size = excluded.size, edge = excluded.edge,
  recorded_at = excluded.recorded_at, refused = null, refused_at = null
"""
REFUSE: LiteralString = """
insert into change_tree (customer_id, epoch, refused, refused_at)
select customer_id, epoch, refused, now() from unnest($1::integer[], $2::uuid[], $3::text[])
  r (customer_id, epoch, refused)
on conflict (customer_id, epoch) do update set refused = excluded.refused,
  refused_at = coalesce(change_tree.refused_at, excluded.refused_at)
"""


@dataclass(slots=True)
class PendingTree:
    """A due log: the sequencer's tree of it, and the stored tree."""

    customer: int
    epoch: UUID
    behind: int  # the number before the first change of its epoch
    recorded_tree: Tree  # `change_log.tree`
    growth: Growth
    recorded_at: datetime  # of the last record in the tree
    checkpoint_size: int | None  # the size of its newest checkpoint
    checkpoint_root: bytes | None  # and its root
    note: str | None
    now: datetime
    is_known: bool  # it was rejected before
    error: str | None = None  # why it is rejected
    is_compared: bool = False  # with its newest checkpoint

    @classmethod
    def of(cls, row: Row) -> PendingTree:
        tree = Tree.read(row["told"])
        return cls(
            row["customer_id"], row["epoch"], row["last_id"] - tree.size, tree, Growth(Tree.read(row["edge"])),
            row["recorded_at"] or LONG_AGO, row["before"], row["root"], row["note"], row["now"],
            row["refused"] is not None,
        )  # fmt: skip

    @property
    def tree(self) -> Tree:
        return self.growth.tree

    @property
    def missing_records(self) -> int:
        """The number of records that its tree lacks; negative if the log has shrunk."""
        return self.recorded_tree.size - self.tree.size

    @property
    def is_complete(self) -> bool:
        """Whether its tree is that of the log."""
        return self.error is None and self.missing_records == 0

    def check(self) -> None:
        """Check whether the log can have grown from its stored tree and its checkpoint."""
        known_size = max(self.tree.size, self.checkpoint_size or 0)
        if self.recorded_tree.size < known_size:
            self.error = f"it has shrunk: it has {self.recorded_tree.size} records, and had {known_size}"
        self.compare()

    def compare(self) -> None:
        """Compare the tree with the newest checkpoint and the sequencer's tree.

        Each is compared once the tree has its size.
        """
        if self.error is None and self.tree.size == self.checkpoint_size:
            self.is_compared = True
            if self.tree.root != self.checkpoint_root:
                self.error = f"its first {self.checkpoint_size} records are not those of its newest checkpoint"
        if self.error is None and self.missing_records == 0 and self.tree.root != self.recorded_tree.root:
            self.error = f"its {self.recorded_tree.size} records are not those that were numbered"

    def add(self, number: int, recorded_at: datetime, record: bytes) -> None:
        """Add the next record."""
        due = self.behind + self.tree.size + 1
        if self.error is None and number != due:
            self.error = f"number {due} is missing"
        if self.error is None:
            self.growth.append(leaf_hash(record))
            self.recorded_at = recorded_at
            self.compare()


async def trees_due(
    sql: Statements, behind: int, seconds: float, *, signs: bool, only: int | None = None
) -> list[PendingTree]:
    """The next due logs after customer `behind`, each checked (`PendingTree.check`)."""
    rows = await sql.fetch(DUE, behind, seconds, LOGS, signs, only)
    logs = [PendingTree.of(row) for row in rows]
    for log in logs:
        log.check()
    return logs


async def extend_trees(sql: Connection, logs: Sequence[PendingTree]) -> list[PendingTree]:
    """Extend the trees of these logs, and store them, in the caller's transaction.

    Returns the processed logs; the last one may be incomplete. A rejected log is stored as such, without its new tree.
    """
    dealt, reads, left = list[PendingTree](), list[tuple[PendingTree, int]](), PIECE
    for log in logs:
        dealt.append(log)
        if log.error is None and log.missing_records:
            reads.append((log, min(log.missing_records, left)))
            left -= reads[-1][1]
            if not left:
                break
    growing = [log for log, _ in reads]
    await _open(sql, growing)
    await _read(sql, reads)
    await _compare_by_tiles(sql, [log for log in dealt if log.error is None])
    await _keep(sql, dealt)
    return dealt


async def _open(sql: Connection, logs: Sequence[PendingTree]) -> None:
    tiles = await _tiles(sql, [(log, place) for log in logs for place in unfinished(log.tree.size)])
    for log in logs:
        log.growth.open_tiles = {place: bytearray(hashes) for place, hashes in tiles[log.customer].items()}
        if missing := [place for place in unfinished(log.tree.size) if place not in log.growth.open_tiles]:
            log.error = f"its stored hashes are missing: tile {missing[0][1]} of level {missing[0][0]}"


async def _read(sql: Connection, reads: Sequence[tuple[PendingTree, int]]) -> None:
    if not reads:
        return
    ends = {log.customer: log.tree.size + count for log, count in reads}
    rows = await sql.fetch(
        RECORDS,
        [log.customer for log, _ in reads],
        [log.behind + log.tree.size for log, _ in reads],
        [log.behind + ends[log.customer] for log, _ in reads],
        [log.recorded_at for log, _ in reads],
    )
    of = {log.customer: log for log, _ in reads}
    for row in rows:
        of[row["customer_id"]].add(row["change_id"], row["recorded_at"], row["record"])
    for log, _ in reads:
        if log.error is None and log.tree.size < ends[log.customer]:
            log.error = f"number {log.behind + log.tree.size + 1} is missing"


async def _compare_by_tiles(sql: Connection, logs: Sequence[PendingTree]) -> None:
    """Compare trees that are beyond their newest checkpoint with it."""
    beyond = [
        (log, log.checkpoint_size)
        for log in logs
        if log.checkpoint_size and log.checkpoint_size < log.tree.size and not log.is_compared
    ]
    tiles = await _tiles(sql, [(log, place) for log, before in beyond for place in needed([(0, before)])])
    for log, before in beyond:
        grown = log.growth.touched | {place: bytes(tile) for place, tile in log.growth.open_tiles.items()}
        try:
            same = root((0, before), tiles[log.customer] | grown) == log.checkpoint_root
        except NoTile:
            same = False
        if not same:
            log.error = f"its first {before} records are not those of its newest checkpoint"


async def _tiles(sql: Statements, wanted: Sequence[tuple[PendingTree, Place]]) -> dict[int, dict[Place, bytes]]:
    """The tiles of these logs, by customer."""
    tiles = defaultdict[int, dict[Place, bytes]](dict)
    if wanted:
        rows = await sql.fetch(
            TILES,
            [log.customer for log, _ in wanted],
            [log.epoch for log, _ in wanted],
            [place[0] for _, place in wanted],
            [place[1] for _, place in wanted],
        )
        for row in rows:
            tiles[row["customer_id"]][row["level"], row["place"]] = row["hashes"]
    return tiles


async def _keep(sql: Connection, logs: Sequence[PendingTree]) -> None:
    good = [log for log in logs if log.error is None]
    kept = [
        (log.customer, log.epoch, *place, hashes) for log in good for place, hashes in log.growth.take_changed().items()
    ]  # fmt: skip
    if kept:
        await sql.execute(KEEP_TILES, *map(list, zip(*kept, strict=True)))
    if good:
        trees = [(log.customer, log.epoch, log.tree.size, log.tree.stored, log.recorded_at) for log in good]
        await sql.execute(KEEP, *map(list, zip(*trees, strict=True)))
    if refused := [(log.customer, log.epoch, log.error) for log in logs if log.error is not None]:
        await sql.execute(REFUSE, *map(list, zip(*refused, strict=True)))
