"""The ids of a path. An invalid id becomes one that no row has, and gets the endpoint's 404."""

from __future__ import annotations

from keyrack.api.schema.request_body import INT32_MAX

NO_ROW = 0  # an id that no row has: an invalid id finds nothing, like an unknown one


def path_id(text: str) -> int:
    """An id of 32 bits."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        return NO_ROW
    number = int(text)
    return number if number <= INT32_MAX else NO_ROW


def path_number(text: str) -> int:
    """An id of 64 bits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else NO_ROW
