"""The result of the verification of a log, as text and JSON."""

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
    """Additional results: the log's other epochs, and its comparison with the tables."""

    epochs: list[Row] = field(default_factory=list[Row])
    tables: AuditResult | None = None


def format_result(audit: Verification, compared: VerifiedCheckpoints, context: AuditContext) -> CommandResult:
    """The result as text for people and as JSON members."""
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
    lines = [f"Customer {head.customer}: {count:,} changes after number {head.behind:,} are consistent."]
    if audit.erased:
        lines.append(f"Parts of {audit.erased:,} changes were erased. The proof is still valid.")
    if compared.others:
        lines.append(f"{compared.others:,} checkpoints were not compared: no trusted key signed them. See --key.")
    if audit.proven is None:
        source = "database" if compared.kept else "file"
        reason = compared.unsigned or f"the author of the {source} could have made up all of it. See --checkpoint"
        lines.append(f"No checkpoint was compared: {reason}.")
    else:
        when = f", signed {datetime.fromtimestamp(max(times), UTC):%Y-%m-%d %H:%M:%S} UTC" if times else ""
        lines.append(f"The newest checkpoint confirms them up to number {audit.proven:,}{when}.")
        if audit.proven < audit.last:
            lines.append("Later changes are newer than the checkpoint, and could have been rewritten.")
        if compared.kept:
            lines.append("These checkpoints are stored with the log: write access there can remove the newest ones.")
    lines += [
        f"Another epoch of this log ended with number {row['last_id']:,}. Verify it with --epoch {row['epoch']}."
        for row in context.epochs
    ]
    if (same := context.tables) is not None:
        lines.append(
            f"The tables match the log: {same.whole:,} resources completely, {same.in_part:,} in the part that the log "
            f"retains. {same.unsaid:,} resources are older than the log, and were not compared."
        )
    return CommandResult(value, "\n".join(lines))
