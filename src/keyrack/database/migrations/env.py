"""In charge of how Alembic reaches the database: through the connection that `database.schema` hands it."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
