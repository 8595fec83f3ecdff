"""In charge of the plan of a migration: what each revision that is still to come does, before any of it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyrack.db.migrations import module, oldest, revisions
from keyrack.db.migrations.safety_check import SafetyChecker, StatementEffect
from keyrack.db.migrations.sql_capture import recorded


@dataclass(frozen=True, slots=True)
class PlannedRevision:
    """One revision."""

    revision: str
    title: str  # the first line of its docstring
    statements: Sequence[str]
    effects: Sequence[StatementEffect]
    unused_since: str | None  # the release since which nobody uses what it takes away
    oldest: str | None  # the oldest revision whose release works beside it, where it takes something away


def steps(pending: Sequence[str]) -> list[PlannedRevision]:
    """What these revisions do, oldest first; nothing is asked of a database."""
    judge = SafetyChecker()
    planned_steps: list[PlannedRevision] = []
    for revision in revisions():  # what one may do depends on those before it
        file, statements = module(revision), recorded(revision)
        planned_steps.append(
            PlannedRevision(
                revision,
                (file.__doc__ or "").strip().splitlines()[0],
                statements,
                judge.effects(statements),
                getattr(file, "unused_since", None),
                oldest(revision),
            )
        )
    return [step for step in planned_steps if step.revision in pending]
