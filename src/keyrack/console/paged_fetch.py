"""Reads of many rows in pages of at most `KEYRACK_ODATA_TOP` rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keyrack.http.page_router import Visit


async def rows_of(
    visit: Visit, path: str, query: Mapping[str, str], most: int, skip: int = 0, ids: Sequence[object] = ()
) -> tuple[list[dict[str, Any]], int]:
    """Up to `most` rows after `skip` rows, and the total if `query` counts it. `ids` are the parameters of the path.

    The order must not change between the pages. Raises the `Refusal` of the endpoint.
    """
    all_rows: list[dict[str, Any]] = []
    total = 0
    while True:
        top = min(most - len(all_rows), visit.settings.odata_top)
        paging = {"$top": str(top), "$skip": str(skip + len(all_rows))}
        reply = await visit.call("GET", path, *ids, query={**query, **paging})
        if not all_rows and "$count" in query:
            total = reply.total
        rows: list[dict[str, Any]] = reply.json
        all_rows += rows
        if len(rows) < top or len(all_rows) >= most:
            return all_rows, total


async def count_of(visit: Visit, path: str, condition: str) -> int:
    """The number of rows of a list that match the condition."""
    return (await visit.call("GET", path, query={"$filter": condition, "$top": "0", "$count": "true"})).total


def parts_of(visit: Visit, ids: Sequence[object]) -> Iterator[str]:
    """The ids as lists for `in`, each with at most `KEYRACK_ODATA_ITEMS` items."""
    most = visit.settings.odata_items
    for first in range(0, len(ids), most):
        yield f"({','.join(map(str, ids[first : first + most]))})"


async def rows_with(
    visit: Visit, path: str, ids: Sequence[object], query: Mapping[str, str], id: str = "id"
) -> list[dict[str, Any]]:
    """The existing rows with these ids. Raises the `Refusal` of the endpoint."""
    rows: list[dict[str, Any]] = []
    for some in parts_of(visit, ids):
        narrowed = " and ".join(filter(None, (f"{id} in {some}", query.get("$filter", ""))))
        rows += (await rows_of(visit, path, {**query, "$filter": narrowed}, len(ids)))[0]
    return rows
