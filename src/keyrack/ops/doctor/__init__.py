"""The checks of `keyrack doctor`: settings, machine, database, reachable servers."""

from __future__ import annotations

from keyrack.core.settings import Settings
from keyrack.ops.doctor import database, machine, reachability, settings_check
from keyrack.ops.monitoring.findings import Finding


async def examined(settings: Settings) -> dict[str, list[Finding]]:
    """What was found, by subject; what is right among it. Nothing is started or changed, and every look is bounded."""
    return {
        "Settings": settings_check.examined(settings),
        "Machine": machine.examined(settings),
        "Database": await database.examined(settings),
        "Within reach": await reachability.examined(settings),
    }
