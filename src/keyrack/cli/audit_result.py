"""In charge of what is said of a log that was verified: how far it is proven, and what there is beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from keyrack.changelog.transparency.export_verifier import Verification
from keyrack.changelog.transparency.table_audit import AuditResult
from keyrack.cli.checkpoint_options import VerifiedCheckpoints
from keyrack.cli.output import CommandResult
from keyrack.db.connection import Row


@dataclass
class AuditContext:
    """What there is beside a log that was verified: its epochs that are over, and the tables, if they were compared."""

    epochs: list[Row] = field(default_factory=list[Row])
    tables: AuditResult | None = None


def format_result(audit: Verification, compared: VerifiedCheckpoints, context: AuditContext) -> CommandResult:
    """For people, and as members for programs."""
    head, count, times = audit.head, audit.last - audit.head.behind, compared.times
    value: dict[str, Any] = {
        "valid": True, "customerId": head.customer, "epoch": str(head.epoch), "behind": head.behind,
        "last": audit.last, "size": audit.tree and audit.tree.size, "root": audit.tree and audit.tree.root.hex(),
        "erased": audit.erased, "proven": audit.proven, "checkpoints": len(compared.notes),
        "checkpointTime": datetime.fromtimestamp(max(times), UTC) if times else None,
        "withinReach": compared.kept and bool(compared.notes), "otherKeys": compared.others,
        "otherEpochs": [
            {"epoch": str(row["epoch"]), "last": row["last_id"], "ended": row["ended_at"]} for row in context.epochs
        ],
        "tables": context.tables and asdict(context.tables),
    }  # fmt: skip
    lines = [f"Customer {head.customer}: {count:,} changes behind number {head.behind:,} fit together."]
    if audit.erased:
        lines.append(f"Parts of {audit.erased:,} of them were erased, which leaves the proof as it was.")
    if compared.others:
        lines.append(f"{compared.others:,} checkpoints were signed by other keys alone, and not compared: see --key.")
    if audit.proven is None:
        source = "the file" if not compared.kept else "the database"
        reason = compared.unsigned or f"whoever wrote {source} may have made all of it. See --checkpoint"
        lines.append(f"No checkpoint was compared: {reason}.")
    else:
        when = f", signed {datetime.fromtimestamp(max(times), UTC):%Y-%m-%d %H:%M:%S} UTC" if times else ""
        lines.append(f"Up to number {audit.proven:,} they are what the newest checkpoint says{when}.")
        if audit.proven < audit.last:
            lines.append("What comes behind it is newer than the checkpoint, and may have been written anew.")
        if compared.kept:
            lines.append("These checkpoints are kept with the log: whoever may write there can remove the newest ones.")
    lines += [
        f"Another epoch of this log ended with number {row['last_id']:,}: --epoch {row['epoch']} verifies it."
        for row in context.epochs
    ]
    if (same := context.tables) is not None:
        lines.append(
            f"The tables are what the log says last: {same.whole:,} resources as a whole, {same.in_part:,} as far as "
            f"it is kept; {same.unsaid:,} are older than it, and were taken as they are."
        )
    return CommandResult(value, "\n".join(lines))
