"""Compares both sides, and switches, while writes are held for moments only.

1. Hold: bring the target to the state of the source, and take a snapshot of both sides. Release.
2. Compare all rows of the snapshots, while triggers record which rows change.
3. Hold again, compare only the rows that have changed, and switch.

If too many rows have changed, step 3 takes snapshots for them as well, and repeats. So the length of a hold does not
depend on the number of rows that the customer has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.ops.cells.changed_rows import ChangedRows, record_changes, take_changes
from keyrack.ops.cells.comparison import Comparison, TableSum
from keyrack.ops.cells.hold import hold, numbering, release
from keyrack.ops.cells.replication import Report, wait_for_position
from keyrack.ops.cells.side import MoveRefused, Side
from keyrack.ops.cells.snapshot import SnapshotReader, open_reader
from keyrack.ops.cells.switch import rehearse_switch, switch_target

MOST_HELD = 30.0  # seconds; then the customer is released, and the move has to be started again
FEW_CHANGES = 1_000  # rows that are compared while writes are held
MOST_HOLDS = 6  # the last one compares all changed rows, however many


@dataclass(slots=True)
class ComparedSwitch:
    """The last part of a customer's move, after its rows are copied."""

    source: Side
    target: Side
    move: UUID
    customer: int
    report: Report
    holds: list[float] = field(default_factory=list[float])  # the seconds of each hold
    sums: list[TableSum] = field(default_factory=list[TableSum])

    async def run(self, tables: list[str]) -> None:
        """Compare and switch. Raises `MoveRefused` and `MasterKeyError`; then the customer works in the source."""
        source, target, customer = self.source, self.target, self.customer
        await asyncio.gather(*(record_changes(side, self.move, customer, tables) for side in (source, target)))
        comparison = await Comparison.of(source, tables, customer)
        async with numbering(source, customer) as number_all, open_reader(source) as one, open_reader(target) as other:
            await number_all()  # so that few changes are left while writes are held
            await wait_for_position(source, customer)
            # Their first run is slower
            await comparison.prepare(source, target)
            await rehearse_switch(source, target, self.move, customer)
            try:
                while not await self._hold(number_all, comparison, one, other):
                    pass
            except (MoveRefused, MasterKeyError):
                if await target.state(self.move) != "switched":
                    await release(source, self.move, customer)
                raise

    async def _hold(
        self,
        number_all: Callable[[], Awaitable[None]],
        comparison: Comparison,
        one: SnapshotReader,
        other: SnapshotReader,
    ) -> bool:
        """Hold the writes once. Returns whether the target has taken over."""
        held_since = time.monotonic()
        await hold(self.source, self.move, self.customer)
        self.report({"step": "held"})
        await self._catch_up(number_all)
        changes = await take_changes(self.source, self.target, self.move)
        if self._is_last(changes):
            await comparison.compare_changed(self.source, self.target, changes)
            await switch_target(self.source, self.target, self.move, self.customer)
            self.holds.append(time.monotonic() - held_since)
            return True
        await asyncio.gather(one.take(), other.take())
        await release(self.source, self.move, self.customer)
        self.holds.append(time.monotonic() - held_since)
        self.report({"step": "released"})
        if self.sums:
            await comparison.compare_changed(one, other, changes)
        else:
            self.sums = await comparison.compare_all(one, other, self._report_table)
        await asyncio.gather(one.end(), other.end())
        return False

    def _is_last(self, changes: ChangedRows) -> bool:
        """Whether all rows are compared but these, and these are few."""
        has_few = sum(map(len, changes.values())) <= FEW_CHANGES
        return bool(self.sums) and (has_few or len(self.holds) + 1 == MOST_HOLDS)

    async def _catch_up(self, number_all: Callable[[], Awaitable[None]]) -> None:
        """Bring the target to the state of the held source. Raises `MoveRefused`."""
        try:
            async with asyncio.timeout(MOST_HELD):
                await number_all()
                await wait_for_position(self.source, self.customer)
        except TimeoutError:
            raise MoveRefused(
                f"The target was not up to date within {MOST_HELD:g} seconds, so customer {self.customer} works in "
                f"cell {self.source.cell.name} again. Run the command again later."
            ) from None

    def _report_table(self, table: TableSum) -> None:
        self.report({"step": "compared", "table": table.table, "rows": table.rows, "checksum": table.checksum})
