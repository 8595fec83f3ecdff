"""In charge of how Alembic reaches the database: through the connection that `db.migration_runner` hands it. A revision
is a transaction."""

from alembic import context
from alembic.runtime.migration import MigrationContext, MigrationInfo
from sqlalchemy import text

from keyrack.db.migrations import STOPPED, oldest

FLOOR = text("update compatibility set oldest_revision = :oldest")


def keep(ctx: MigrationContext, step: MigrationInfo, heads: object, run_args: object) -> None:
    """Write down in the revision's transaction which releases still work, where it takes something away."""
    revision = step.up_revision_id
    if revision and revision > STOPPED and (floor := oldest(revision)):
        assert ctx.connection is not None  # noqa: S101 - it is migrated
        ctx.connection.execute(FLOOR, {"oldest": floor})


connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True, on_version_apply=keep)
with context.begin_transaction():
    context.run_migrations()
