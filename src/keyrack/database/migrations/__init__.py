"""In charge of the schema's history: Alembic's revisions, written as SQL."""

from __future__ import annotations

import re


def statements(script: str) -> list[str]:
    """The statements of an SQL script of `create` statements, each at the beginning of a line.

    asyncpg prepares what Alembic executes, and PostgreSQL prepares one statement at a time.
    """
    return [part.strip() for part in re.split(r";\s*\n(?=create )", script) if part.strip()]
