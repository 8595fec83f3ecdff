"""Searches of the console as query options of the API."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 200  # characters of a search
BEST_FIRST = "searchrank()"  # an item of $orderby
_WORD = re.compile(r'[^\s"]+')


def search_query(words: Sequence[str]) -> str:
    """`$search` for rows that match all the words; "" if there are none."""
    return " AND ".join(f'"{word}"' for word in words)


def ordered_search(text: str, order: str) -> dict[str, str]:
    """The options for a search: the best match first, then the order `order`."""
    words = _WORD.findall(text[:LONGEST])
    if not words:
        return {"$orderby": order}
    return {"$search": search_query(words), "$orderby": f"{BEST_FIRST},{order}"}
