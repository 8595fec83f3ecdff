"""Alembic's environment: uses the connection of `db.migration_runner`, one transaction per revision."""

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import text

from keyrack.db.migrations import STOPPED, oldest

FLOOR = text("update compatibility set oldest_revision = :oldest")


def keep(ctx: MigrationContext, step: MigrationInfo, heads: object, run_args: object) -> None:
    """Record in the revision's transaction which releases still work, if it removes something."""
    revision = step.up_revision_id
    if revision and revision > STOPPED and (floor := oldest(revision)):
        assert ctx.connection is not None  # noqa: S101 - an online migration has one
        ctx.connection.execute(FLOOR, {"oldest": floor})


connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True, on_version_apply=keep)
with context.begin_transaction():
    context.run_migrations()
