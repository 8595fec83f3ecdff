"""The plan of a migration: the effects of each pending revision, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyrack.db.migrations import module, oldest, revisions
from keyrack.db.migrations.safety_check import SafetyChecker, StatementEffect
from keyrack.db.migrations.sql_capture import recorded


@dataclass(frozen=True, slots=True)
class PlannedRevision:
    """A pending revision, its statements and their effects."""

    revision: str
    title: str  # the first line of its docstring
    statements: Sequence[str]
    effects: Sequence[StatementEffect]
    unused_since: str | None  # the release since which no code uses what it removes
    oldest: str | None  # the oldest revision whose release works beside it; None if it removes nothing


def steps(pending: Sequence[str]) -> list[PlannedRevision]:
    """The plan of these revisions, oldest first; needs no database."""
    judge = SafetyChecker()
    planned_steps: list[PlannedRevision] = []
    for revision in revisions():  # the effects of one depend on those before it
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
