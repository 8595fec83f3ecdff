"""The actor of a transaction: each write names it, and the database records it.

A transaction sets its actor when it begins. The database rejects a change to a recorded table if no actor is set.
"""

from __future__ import annotations

import os
import pwd
import socket
from base64 import b64encode
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, LiteralString, Self

from pydantic_core import to_json

Type = Literal["manager", "client", "device", "user", "operator", "system"]


# Tables with frequent writes by single statements, which need no actor: no release records changes of these. A table
# that is not in the list, such as a future one, counts as recorded.
UNRECORDED = frozenset((
    "car_state", "delivery", "delivery_lane", "event", "heartbeat", "housekeeping", "login_state", "odometer",
    "operation", "position", "pulled_message", "rate_limit", "session", "telemetry", "used_login_state",
    "driver_session", "driver_push",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a change, its address and its request."""

    type: Type
    name: str | None = None
    id: int | None = None
    address: str | None = None
    request: str | None = None
    scope: int | None = None  # id of the actor's group scope: what the actor creates joins its groups
    on_behalf_of: Actor | None = None  # the actor that decided what this one carries out

    def on_behalf(self, other: Actor) -> Self:
        """The same actor, acting on behalf of another one."""
        return replace(self, on_behalf_of=other)

    @property
    def encoded(self) -> str:
        """The actor for the database: JSON in base64, which needs no quoting in SQL."""
        other = self.on_behalf_of
        members = {
            **self._name_and_id, "address": self.address, "requestId": self.request,
            "onBehalfOf": other and other._name_and_id,
        }  # fmt: skip
        return b64encode(to_json({name: value for name, value in members.items() if value is not None})).decode()

    @property
    def _name_and_id(self) -> dict[str, str]:
        members = {"type": self.type, "id": None if self.id is None else str(self.id), "name": self.name}
        return {name: value for name, value in members.items() if value is not None}


# The actor of the running task. None if it has no actor: then the database rejects a change.
acting: ContextVar[Actor | None] = ContextVar("acting", default=None)


# The actor for the rest of a transaction: $1 is its `encoded`
SET_ACTOR: LiteralString = "select set_config('keyrack.who', $1, true)"


def begin_statement() -> str:
    """The statement that begins a transaction and sets its actor; always one round trip."""
    actor = acting.get()
    if actor is None:
        return "begin"
    limit = "" if actor.scope is None else f"; set local keyrack.scope to '{actor.scope}'"
    return f"begin; set local keyrack.who to '{actor.encoded}'{limit}"


def operator() -> Actor:
    """The operator at the command line, named by the OS account.

    Variables such as USER, which each caller can set, do not count.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # an account in a container may have no name
        name = str(uid)
    return Actor("operator", f"{name}@{socket.gethostname()}")


def system(part: str) -> Actor:
    """A part of Keyrack that acts without a request."""
    return Actor("system", part)
