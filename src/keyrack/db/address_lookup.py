"""SQL that finds a row by the normal form of its address (`core.addresses`)."""

from __future__ import annotations

from typing import LiteralString

# PostgreSQL's `lower()` is right for ASCII alone. A text that is its own normal form needs no `lower()`
ROW: LiteralString = """
(select min({key}) from {table}
  where lower({text}) = {form} and ({text} = {form} or octet_length({text}) = length({text})))
"""


def key_by_form(table: LiteralString, key: LiteralString, text: LiteralString, form: LiteralString) -> LiteralString:
    """SQL of the key of the row whose address `text` has the normal form `form`; null if there is none."""
    return ROW.strip().replace("{table}", table).replace("{key}", key).replace("{text}", text).replace("{form}", form)
