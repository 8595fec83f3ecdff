"""The permissions of a client: those shared with its token."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from keyrack.api.permissions import PROGRAMS, closed
from keyrack.auth.access_tokens import AccessTokenClaims
from keyrack.auth.client_authentication import load_caller
from keyrack.db.connection import Database

SUBJECT = UUID(int=1)
# Unknown names, and permissions of no client. They grant nothing, in any place
NAMES = st.frozensets(
    st.sampled_from([*map(str, PROGRAMS), "clients:write", "managers:write", "cars:*", "Cars:read", ""])
)
HELD = st.dictionaries(st.integers(1, 5), NAMES, max_size=3)


class Rows:
    """A database with this one client."""

    def __init__(self, held: dict[int, frozenset[str]], secrets: list[int]) -> None:
        whose = held or {None: None}  # of a client without a customer
        self.rows = [
            {"client_id": 7, "name": "X", "mode": "strict", "until": 1e12, "secrets": secrets}
            | {"customer_id": customer, "scopes": scopes}
            for customer, scopes in whose.items()
        ]

    async def fetch(self, *_: object) -> list[dict[str, Any]]:
        return self.rows


def of(asked: frozenset[str], held: dict[int, frozenset[str]], secrets: list[int]) -> Any:
    token = AccessTokenClaims("a", SUBJECT, 1e12, 0, scopes=asked, secret=1)
    return asyncio.run(load_caller(cast("Database", Rows(held, secrets)), token))


@given(asked=NAMES, held=HELD)
def test_permissions_are_those_of_token_and_client(asked: frozenset[str], held: dict[int, frozenset[str]]) -> None:
    caller = of(asked, held, [1, 2])
    programs = {str(one): one for one in PROGRAMS}

    def meant(names: frozenset[str]) -> frozenset[object]:
        return frozenset(closed([programs[name] for name in names if name in programs]))

    assert caller.grants.keys() == held.keys()
    for customer, scopes in held.items():
        assert caller.grants[customer].permissions == meant(asked) & meant(scopes)


@given(asked=NAMES, held=HELD)
def test_a_token_of_a_removed_secret_is_invalid(asked: frozenset[str], held: dict[int, frozenset[str]]) -> None:
    assert of(asked, held, [2]) is None
