"""In charge of `Keyrack-Ignored`: which members of a request's body the server did not know and ignored.

Without it a misspelt member of a body that is read leniently would be lost without a word.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import falcon.asgi
from pydantic import TypeAdapter

from keyrack.api.schema import unknown_members
from keyrack.http.request_state import request_state

HEADER = "Keyrack-Ignored"
MEANING = (
    "Members of the body that the server does not know and has ignored, separated by commas; nested ones with their "
    "place, as in `items/0/name`. At most 20, percent-encoded."
)
NAMED = 20  # members that the header names, at most


def record_ignored_members(http: falcon.asgi.Request, adapter: TypeAdapter[Any], document: object) -> None:
    """Note what the header has to name of a valid body, which was read leniently."""
    if members := unknown_members.unknown(adapter, document):
        request_state(http.scope).ignored_members = ", ".join(_encoded(member) for member in members[:NAMED])


def set_ignored_members_header(http: falcon.asgi.Request, reply: falcon.asgi.Response) -> None:
    """Put the header into the reply, if members were ignored."""
    if (ignored := request_state(http.scope).ignored_members) is not None:
        reply.set_header(HEADER, ignored)


def _encoded(member: unknown_members.UnknownMember) -> str:
    """`items/0/name`, in ASCII and without a comma; each part cut where it is too long for a header."""
    return "/".join(quote(str(part)[: unknown_members.LONGEST], safe="") for part in member.place)
