"""Reads of a list page by page, in a stable order.

The options of OData are used as far as the server supports them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import quote

from keyrack.core.api_client.responses import ApiError

PAGE = 500  # rows of one read


Read = Callable[[str], Awaitable[Any]]  # returns the answer to the read of a path


async def pages(get: Read, path: str, key: str, query: Mapping[str, str], size: int) -> AsyncGenerator[list[Any]]:
    """The pages of a list, none of them empty. Raises `ApiError`.

    A row that does not change meanwhile comes exactly once. `key` is a field with unique whole numbers. A page begins
    after the last key of the previous one (`id gt 17`), so that rows that come and go do not move the others. If a
    server ignores this `$filter`, the pages are read by `$skip`. A server that supports no options returns everything
    at once. `query` has further options, such as a `$filter`.
    """
    last: int | None = None
    seen, skipping = 0, False
    while True:
        options = {**query, "$orderby": key, "$top": str(size)}
        if skipping:
            options["$skip"] = str(seen)
        elif last is not None:
            also = f"({query['$filter']}) and " if "$filter" in query else ""
            options["$filter"] = f"{also}{key} gt {last}"
        page = await _read(get, path, options)
        new = sorted((row for row in page if last is None or row[key] > last), key=lambda row: row[key])
        if page and not new and not skipping:
            skipping = True  # the server has returned the same page again
            continue
        if not new:
            return
        yield new
        last, seen = new[-1][key], seen + len(new)
        if len(page) != size:  # fewer: the last; more: the server does not know $top
            return


async def _read(get: Read, path: str, options: Mapping[str, str]) -> list[dict[str, Any]]:
    rows = await get(f"{path}?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items()))
    if not isinstance(rows, list):
        raise ApiError(f"GET {path}: the response is not a list.")
    return cast("list[dict[str, Any]]", rows)
