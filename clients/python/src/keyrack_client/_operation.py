"""A row of the table of operations: method, path, and the types of body and answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

Body = TypeVar("Body")
Answer = TypeVar("Answer", covariant=True)
PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Operation(Generic[Body, Answer]):
    """An operation of the API, for `Keyrack.call`."""

    id: str
    method: str
    path: str

    def fill(self, ids: tuple[int | str, ...]) -> str:
        """Return the path with the ids in its places.

        Raises `TypeError` if their number is wrong, and `ValueError` for an id that would change the path.
        """
        names = PLACE.findall(self.path)
        if len(names) != len(ids):
            raise TypeError(f"{self.id} needs {len(names)} ids ({', '.join(names) or 'none'}), got {len(ids)}.")
        for id in ids:
            if str(id) in ("", ".", ".."):
                raise ValueError(f"{id!r} is not an id.")
        values = iter(ids)
        return PLACE.sub(lambda _: quote(str(next(values)), safe=""), self.path)
