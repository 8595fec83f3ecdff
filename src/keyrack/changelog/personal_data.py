"""The personal members of changes, stored separately so that they can be erased alone."""

from __future__ import annotations

from typing import Any

from keyrack.fleet.declarations import PEOPLE, USERS

# Resource -> the members, by the API's names
PERSONAL: dict[str, frozenset[str]] = {
    "user": PEOPLE.personal | USERS.personal,
    "manager": frozenset(("username", "acceptedAddress")),
    "identity": frozenset(("subject", "emailAddress")),
}
NONE = frozenset[str]()

Members = dict[str, Any]


def split_personal_data(resource: str, before: Members | None, after: Members | None) -> Members:
    """Split off the personal members of a change, as `{"before": {...}, "after": {...}}`.

    They are removed from the given dictionaries. A side without any is left out.

    >>> before, after = {"emailAddress": "a@example.org", "type": "Normal"}, {"type": "Anonymous"}
    >>> split_personal_data("user", before, after), before
    ({'before': {'emailAddress': 'a@example.org'}}, {'type': 'Normal'})
    """
    personal = PERSONAL.get(resource, NONE)
    sides: Members = {}
    for side, members in (("before", before), ("after", after)):
        if members and (named := sorted(personal & members.keys())):
            sides[side] = {name: members.pop(name) for name in named}
    return sides
