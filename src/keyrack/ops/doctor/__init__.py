"""The checks of `keyrack doctor`: settings, machine, database, reachable servers."""

from __future__ import annotations

from keyrack.core.settings import Cell, Settings
from keyrack.ops.doctor import database, machine, reachability, settings_check
from keyrack.ops.monitoring.findings import Finding


async def examined(settings: Settings) -> dict[str, list[Finding]]:
    """Run all checks: findings by subject, including passed checks.

    The checks only read, and each has a time limit.
    """
    return {
        "Settings": settings_check.examined(settings),
        "Machine": machine.examined(settings),
        **{_subject(cell, settings): await database.examined(cell) for cell in settings.all_cells},
        "Reachability": await reachability.examined(settings),
    }


def _subject(cell: Cell, settings: Settings) -> str:
    return f"Database of cell {cell.name}" if settings.cells else "Database"
