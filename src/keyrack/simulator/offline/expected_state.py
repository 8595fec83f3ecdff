"""The expected rights: accepted assignments, and their issued and revoked keys.

It never asks the server; the server's keys are compared with it. Times are whole seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class AcceptedAssignment:
    """An assignment as it was accepted."""

    id: int
    car: int
    user: int
    start: int
    end: int | None
    lifetime: int
    renewable_after: int

    def life(self, issued: int) -> tuple[int, int]:
        """The start and end of the validity of a key issued at this time."""
        expires = issued + self.lifetime
        return max(issued, self.start), expires if self.end is None else min(expires, self.end)

    def holds(self, at: int) -> bool:
        return self.start <= at and (self.end is None or at < self.end)


@dataclass(eq=False, slots=True)
class IssuedPhoneKey:
    """A key issued to a phone, with the assignment at that time."""

    grant: AcceptedAssignment
    phone: str
    box: str  # the box's name, with the epoch
    issued: int
    begins: int
    expires: int
    limit: int  # seconds of validity without news from the server
    revoked: int | None = None


class Meeting(NamedTuple):
    """A phone's last contact with the server: its keys and their assignments at that time."""

    at: int
    keys: dict[int, tuple[IssuedPhoneKey, AcceptedAssignment]]


@dataclass(slots=True)
class InstalledBox:
    """An enrolled box, its car, and whether its service is active."""

    name: str
    car: int | None
    is_served: bool = True


@dataclass(slots=True)
class Books:
    """The current rights; `limit` is None if the customer has no limit."""

    limit: int | None
    grants: dict[int, AcceptedAssignment] = field(default_factory=dict[int, AcceptedAssignment])
    phones: dict[str, int] = field(default_factory=dict[str, int])  # registered phones and their users
    boxes: dict[int, InstalledBox] = field(default_factory=dict[int, InstalledBox])  # by product
    # All issued keys, by assignment
    keys: dict[int, list[IssuedPhoneKey]] = field(default_factory=dict[int, list[IssuedPhoneKey]])
    met: dict[str, Meeting] = field(default_factory=dict[str, Meeting])

    # Accepted changes

    def put(self, grant: AcceptedAssignment, at: int) -> None:
        """Store a new or changed assignment, and revoke keys that exceed it."""
        self.grants[grant.id] = grant
        self._revoke((key for key in self.keys.get(grant.id, ()) if _gives_more(key, grant)), at)

    def end(self, grant: int, at: int) -> None:
        del self.grants[grant]
        self._revoke(self.keys.get(grant, ()), at)

    def remove_phone(self, phone: str, at: int) -> None:
        del self.phones[phone]
        self._revoke((key for key in self._all() if key.phone == phone), at)

    def serve(self, product: int, at: int, *, is_served: bool) -> None:
        """The service of a box has ended or is active again."""
        self.boxes[product].is_served = is_served
        if not is_served:
            self._revoke(self._of_box(product), at)

    def take_out(self, product: int, at: int) -> None:
        """Take a box out of its car, which ends the assignments of that car."""
        box = self.boxes[product]
        for grant in [grant for grant in self.grants.values() if grant.car == box.car]:
            self.end(grant.id, at)
        box.car = None
        self._revoke(self._of_box(product), at)

    def enrol(self, product: int, name: str, car: int | None, at: int) -> None:
        """Enrol a box in its next epoch, which ends its earlier keys."""
        if product in self.boxes:
            self._revoke(self._of_box(product), at)
        self.boxes[product] = InstalledBox(name, car)

    def revoke_issuing_keys(self, at: int) -> None:
        """Revoke all keys. Boxes learn it from the next key set."""
        self._revoke(self._all(), at)

    # Issued keys

    def fetch(self, phone: str, at: int) -> Meeting:
        """The keys that this phone gets now."""
        due = [grant for grant in self.grants.values() if grant.user == self.phones.get(phone)]
        boxes = {box.car: box for box in self.boxes.values() if box.is_served}
        keys: dict[int, tuple[IssuedPhoneKey, AcceptedAssignment]] = {}
        for grant in due:
            box = boxes.get(grant.car)
            if box is None or (grant.end is not None and grant.end <= at) or grant.start >= at + grant.lifetime:
                continue
            keys[grant.id] = (self._newest(grant, phone, box.name, at), grant)
        self.met[phone] = Meeting(at, keys)
        return self.met[phone]

    def _newest(self, grant: AcceptedAssignment, phone: str, box: str, at: int) -> IssuedPhoneKey:
        """The phone's key for this assignment, or a new one if it is due."""
        issued = self.keys.setdefault(grant.id, [])
        own = [key for key in issued if (key.phone, key.box, key.revoked) == (phone, box, None)]
        key = own[-1] if own else None
        if key is not None:
            same = (key.begins, key.expires) == grant.life(key.issued)
            if same and at < key.issued + grant.renewable_after:
                return key
        limit = grant.lifetime if self.limit is None else self.limit
        key = IssuedPhoneKey(grant, phone, box, at, *grant.life(at), limit)
        issued.append(key)
        return key

    def _all(self) -> Iterable[IssuedPhoneKey]:
        return chain.from_iterable(self.keys.values())

    def _of_box(self, product: int) -> Iterable[IssuedPhoneKey]:
        name = self.boxes[product].name
        return (key for key in self._all() if key.box == name)

    def _revoke(self, keys: Iterable[IssuedPhoneKey], at: int) -> None:
        for key in keys:
            key.revoked = key.revoked or at


def _gives_more(key: IssuedPhoneKey, grant: AcceptedAssignment) -> bool:
    return (
        (key.grant.car, key.grant.user) != (grant.car, grant.user)
        or key.begins < grant.start
        or (grant.end is not None and key.expires > grant.end)
        or key.expires > key.issued + grant.lifetime
    )
