"""Records the SQL of a revision instead of executing it."""

from __future__ import annotations

from alembic.migration import MigrationContext
from alembic.operations import Operations

from keyrack.db.migrations import module


class _Paper:
    """The output of Alembic's offline mode, as a list of statements."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def write(self, text: str) -> None:
        statement = text.strip().removesuffix(";")
        if statement not in ("BEGIN", "COMMIT"):  # Alembic writes these around a block without a transaction
            self.statements.append(statement)

    def flush(self) -> None: ...


def recorded(revision: str) -> list[str]:
    """The statements of the revision, in their order."""
    paper = _Paper()
    context = MigrationContext.configure(dialect_name="postgresql", opts={"as_sql": True, "output_buffer": paper})
    with Operations.context(context):
        module(revision).upgrade()
    return paper.statements
