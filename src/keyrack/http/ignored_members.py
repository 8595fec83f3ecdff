"""`Keyrack-Ignored`: the unknown properties of a request body that the server ignored.

Without it, a misspelt property of a leniently read body would be lost silently.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import falcon.asgi
from pydantic import TypeAdapter

from keyrack.api.schema import unknown_members
from keyrack.http.request_state import RequestState

HEADER = "Keyrack-Ignored"
MEANING = (
    "Comma-separated unknown properties of the body, which the server ignored. A nested one has its path, as in"
    " `items/0/name`. At most 20, percent-encoded."
)
NAMED = 20  # maximum number of properties in the header


def record_ignored_members(state: RequestState, adapter: TypeAdapter[Any], document: object) -> None:
    """Record the ignored properties of a valid body that was read leniently."""
    if members := unknown_members.unknown(adapter, document):
        state.ignored_members = ", ".join(_encoded(member) for member in members[:NAMED])


def set_ignored_members_header(state: RequestState, reply: falcon.asgi.Response) -> None:
    """Set the header in the reply if properties were ignored."""
    if (ignored := state.ignored_members) is not None:
        reply.set_header(HEADER, ignored)


def _encoded(member: unknown_members.UnknownMember) -> str:
    """`items/0/name`, in ASCII and without a comma. Each part is truncated to the limit."""
    return "/".join(quote(str(part)[: unknown_members.LONGEST], safe="") for part in member.place)
