"""The command `housekeeping`: clean-up jobs, and the last success of each."""

from __future__ import annotations

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.output import ListResult
from keyrack.ops import housekeeping

app = typer.Typer()

COLUMNS = {
    "STEP": "step", "LATE": "late", "LAST GOOD": "lastGood", "SECONDS": "seconds", "FAILURES": "failures",
    "NEXT": "next", "LAST ERROR": "lastErrorAt", "ERROR": "lastError",
}  # fmt: skip


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession) -> ListResult:
    """List clean-up jobs: last success, duration and last error."""
    rows = await housekeeping.status(session.sql)
    return ListResult(
        [
            {
                "step": row["step"],
                "late": row["late"],
                "lastGood": row["last_good"],
                "seconds": row["seconds"] and round(row["seconds"], 3),
                "failures": row["failures"],
                "next": row["due_at"],
                "lastErrorAt": row["last_error_at"],
                "lastError": row["last_error"],
            }
            for row in rows
        ],
        COLUMNS,
    )
