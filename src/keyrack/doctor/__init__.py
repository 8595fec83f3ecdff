"""What `keyrack doctor` examines: settings that do not fit, the machine, the database, and what has to be reached."""

from __future__ import annotations

from keyrack.doctor import database, fitting, machine, reaching
from keyrack.monitoring.judging import Finding
from keyrack.settings import Settings


async def examined(settings: Settings) -> dict[str, list[Finding]]:
    """What was found, by subject; what is right among it. Nothing is started or changed, and every look is bounded."""
    return {
        "Settings": fitting.examined(settings),
        "Machine": machine.examined(settings),
        "Database": await database.examined(settings),
        "Within reach": await reaching.examined(settings),
    }
