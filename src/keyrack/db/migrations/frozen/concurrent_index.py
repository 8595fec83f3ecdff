"""In charge of indexes on tables that are in use: made without a transaction, so that nobody who writes waits."""

from __future__ import annotations

from collections.abc import Sequence

from alembic import op
from sqlalchemy import text

VALID = text("select indisvalid from pg_index where indexrelid = to_regclass(:name)")
OPERATOR_CLASSES = text("""
select count(*) from pg_opclass c join pg_am a on a.oid = c.opcmethod
where a.amname = 'gin' and opcname = any(:names) and pg_opclass_is_visible(c.oid)
""")


def index(name: str, definition: str, *, operator_classes: Sequence[str] = ()) -> None:
    """Make the index `name`; `definition` is what follows it, as `on car (customer_id, name)`, with a leading `unique`
    where it is one. It is all that its revision does: what is committed in between cannot be undone.

    A run that was cut off has left the index invalid, and it is made again; or whole, and it stays. An index that needs
    `operator_classes` of GIN, which extensions have, is not made if the database has not all of them.
    """
    rest = definition.removeprefix("unique ")
    create = f"create {'unique ' if rest != definition else ''}index concurrently {name} {rest}"
    context = op.get_context()
    with context.autocommit_block():
        if not context.as_sql:
            assert context.config is not None and context.connection is not None  # noqa: S101 - Alembic gives both
            names = list(operator_classes)
            if names and context.connection.execute(OPERATOR_CLASSES, {"names": names}).scalar() != len(names):
                return
            # It waits for older transactions, and nobody waits behind it
            op.execute(f"set lock_timeout = '{context.config.attributes['patience']}s'")
            valid = context.connection.execute(VALID, {"name": name}).scalar()
            if valid is False:
                op.execute(f"drop index concurrently {name}")
            if not valid:
                op.execute(create)
            op.execute("reset lock_timeout")
        else:
            op.execute(create)
