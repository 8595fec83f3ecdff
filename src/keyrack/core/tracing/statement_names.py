"""Names of SQL statements in traces: operation and table, without values."""

from __future__ import annotations

import re
from functools import lru_cache

_WRITES = re.compile(r"\b(insert\s+into|update|delete\s+from)\s+(?:only\s+)?([a-z_][a-z0-9_]*)", re.IGNORECASE)
_LOCKS = re.compile(r"\bfor\s+(?:no\s+key\s+)?update\b|\bdo\s+update\s+set\b", re.IGNORECASE)
_READS = re.compile(r"([()])|\b(?:from|join)\s+(?:only\s+)?([a-z_][a-z0-9_]*)(?!\w|\s*\()", re.IGNORECASE)
_NAMED = re.compile(r"\b([a-z_][a-z0-9_]*)\s*(?:\([^()]*\)\s*)?as\s+(?:materialized\s+)?\(", re.IGNORECASE)
_TEXTS = re.compile(r"'(?:[^']|'')*'|--[^\n]*")
_FIRST = re.compile(r"\s*([a-z]+)", re.IGNORECASE)
_READING = ("select", "with")


@lru_cache(maxsize=2_000)
def statement_name(sql: str) -> tuple[str, str]:
    """The operation and the table of a statement; "" if there is no table.

    The table is the first one that the statement writes, otherwise the outermost one that it reads. Statements are
    literals, so the cache stays small.
    """
    plain = _LOCKS.sub(" ", _TEXTS.sub("''", sql)).lower()
    own = {*_NAMED.findall(plain), "lateral", "select"}
    for kind, table in _WRITES.findall(plain):
        if table not in own:
            return kind.split()[0], table
    first = _FIRST.match(plain)
    operation = first[1] if first else ""
    return ("select", _read(plain, own)) if operation in _READING else (operation, "")


def _read(plain: str, own: set[str]) -> str:
    """The first table at the lowest nesting depth."""
    depth, table_by_depth = 0, dict[int, str]()
    for bracket, table in _READS.findall(plain):
        if bracket:
            depth += 1 if bracket == "(" else -1
        elif table not in own:
            table_by_depth.setdefault(depth, table)
    return table_by_depth[min(table_by_depth)] if table_by_depth else ""
