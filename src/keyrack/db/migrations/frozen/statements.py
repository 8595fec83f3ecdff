"""Splits the SQL script of a revision into statements."""

from __future__ import annotations

import re


def statements(script: str) -> list[str]:
    """The statements of an SQL script of `create` statements, each at the beginning of a line.

    asyncpg prepares what Alembic executes, and PostgreSQL prepares one statement at a time.
    """
    return [part.strip() for part in re.split(r";\s*\n(?=create )", script) if part.strip()]
