"""In charge of who acts: whoever writes says so at the beginning of each transaction, and the database records it with
every change. What nobody has said of themselves is refused there."""

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


# Written to all the time, and by single statements, which need not say who acts: changes of these are recorded by no
# release. Of a table that stands nowhere, one to come, it is said
UNRECORDED = frozenset((
    "car_state", "delivery", "delivery_lane", "event", "heartbeat", "housekeeping", "login_state", "odometer",
    "operation", "position", "rate_limit", "session", "telemetry", "used_login_state",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, from where, in which request."""

    type: Type
    name: str | None = None
    id: int | None = None
    address: str | None = None
    request: str | None = None
    scope: int | None = None  # limited to groups: what is made joins them
    on_behalf_of: Actor | None = None  # who decided what is carried out now

    def on_behalf(self, other: Actor) -> Self:
        """The same actor, who carries out what another one decided."""
        return replace(self, on_behalf_of=other)

    @property
    def encoded(self) -> str:
        """What the database is told: JSON in base64, in which nothing can be put that would have to be quoted."""
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
    """The statement that begins a transaction of whoever acts; one round trip, whoever it is."""
    actor = acting.get()
    if actor is None:
        return "begin"
    limit = "" if actor.scope is None else f"; set local keyrack.scope to '{actor.scope}'"
    return f"begin; set local keyrack.who to '{actor.encoded}'{limit}"


def operator() -> Actor:
    """Who types commands on this machine: the name of the system's user, whatever the environment says."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container's user need not have a name
        name = str(uid)
    return Actor("operator", f"{name}@{socket.gethostname()}")


def system(part: str) -> Actor:
    """A part of Keyrack that acts on nobody's request."""
    return Actor("system", part)
