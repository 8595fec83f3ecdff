"""The ledger: the expected decisions of boxes by docs/keys.md, their actions, and differences.

An attempt must open a box, may open it, or must not. The expectation is derived from accepted assignments
(`expected_state`), from a box's possible knowledge (`box_knowledge`) and from the true time. It never asks a box or the
server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.message_fields import KEY_SET, ROOT, STATUS_LIST, TIME
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.simulator.offline.box_knowledge import Knowledge
from keyrack.simulator.offline.expected_state import Books, IssuedPhoneKey
from keyrack.simulator.offline.summary import OWNER, ScenarioSummary, ago

TOLERANCE = 300  # seconds by which boxes accept a key before its start and after its end
FRESH = 300  # seconds for which the server returns an unchanged list


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt to open (1) or close (2) a box."""

    at: int
    by: str  # OWNER, or the kind of attack
    phone: str  # the phone whose private key signed the answer
    product: int
    key: IssuedPhoneKey | None  # the shown key; None if it was never issued in this form
    command: int
    counter: int
    is_answer: bool = True  # an unaltered answer to the current challenge
    is_made: bool = False  # a key forged with a stolen issuing key


@dataclass(frozen=True, slots=True)
class ExpectedDecision:
    """Whether the box must open, and whether it may."""

    must: bool
    may: bool
    until: int = 0  # the last time at which the key can open this box in its current state


@dataclass(frozen=True, slots=True)
class BoxAction:
    """An action of a box: the user whose right it used, and the box's time."""

    command: int
    user: int
    car: int
    time: int
    is_certain: bool


@dataclass(slots=True)
class Ledger:
    """Judges attempts. `opens_uncertain` is the customer's policy for boxes whose clocks have stopped."""

    books: Books
    opens_uncertain: bool
    summary: ScenarioSummary
    boxes: dict[int, Knowledge] = field(default_factory=dict[int, Knowledge])
    counters: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    copied: set[str] = field(default_factory=set[str])  # phones whose private keys were copied
    revoking: tuple[int, int] | None = None  # sequence and time of the key set that revokes a stolen issuing key
    done: dict[str, list[BoxAction]] = field(default_factory=dict[str, list[BoxAction]])  # by box, in order

    def expect(self, attempt: OpenAttempt) -> ExpectedDecision:
        """The expected decision of the box, before the attempt."""
        key, box = attempt.key, self.boxes[attempt.product]
        if not attempt.is_answer:
            return ExpectedDecision(must=False, may=False)
        if key is None:
            return ExpectedDecision(must=False, may=attempt.is_made and not self._has_revoked(box))
        at = attempt.at
        evidence = max(key.issued, box.listed, box.forged)
        until = min(key.expires, evidence + key.limit) + TOLERANCE + box.error(at)
        is_known = key.revoked is not None and box.listed >= key.revoked
        may = (
            (key.phone, key.box) == (attempt.phone, box.name)
            and (not is_known or box.forged > 0)
            and not (self._has_revoked(box) and self._is_before_revocation(key))
            and key.begins - TOLERANCE - box.haste(at) <= at <= until
            and attempt.counter > self.counters.get((box.name, attempt.phone), -1)
            and self._takes_time(box)
        )
        return ExpectedDecision(self._must(attempt, key, box), may, until)

    def _must(self, attempt: OpenAttempt, key: IssuedPhoneKey, box: Knowledge) -> bool:
        """Whether the box must open.

        It must if the phone contacted the server recently enough, and its right was not revoked since.

        The times in the key do not count, because timely renewal is part of the guarantee.
        """
        at, met = attempt.at, self.books.met.get(attempt.phone)
        if attempt.by != OWNER or attempt.phone in self.copied or met is None or key.revoked is not None:
            return False
        held_key, grant = met.keys.get(key.grant.id, (None, key.grant))
        lately = min(grant.lifetime - grant.renewable_after, key.limit - FRESH - TOLERANCE)
        least, most = box.slow(at)
        is_honest = key.box == box.name and self._takes_time(box) and -TOLERANCE < least <= most < TOLERANCE
        has_keys = self.revoking is None or (met.at >= self.revoking[1] and not self._is_before_revocation(key))
        return (
            held_key is key and grant.holds(at) and at - met.at <= lately and is_honest and has_keys and box.forged == 0
        )

    def _has_revoked(self, box: Knowledge) -> bool:
        """Whether the box has the key set that revokes the stolen issuing key."""
        return self.revoking is not None and box.sequence >= self.revoking[0]

    def _is_before_revocation(self, key: IssuedPhoneKey) -> bool:
        return self.revoking is not None and key.issued < self.revoking[1]

    def _takes_time(self, box: Knowledge) -> bool:
        return box.is_certain or self.opens_uncertain

    def note(
        self, attempt: OpenAttempt, verdict: ExpectedDecision, code: BoxRefusalCode, done: BoxAction | None
    ) -> None:
        """Record the result of an attempt: `code` is the exact reason, `done` the action of the lock."""
        summary, box, at, key = self.summary, self.boxes[attempt.product], attempt.at, attempt.key
        summary.tried(attempt.by, code, is_done=done is not None)
        if key is not None:
            box.may_hear(key.issued, at)
        summary.owed += verdict.must
        description = f"{attempt.by}, {ago(at - summary.began)}: {box.name}, {code.text}"
        if verdict.must and done is None:
            summary.rights_refused.append(description)
        if done is None:
            return
        if not verdict.may:
            summary.without_right.append(description)
        self.counters[box.name, attempt.phone] = attempt.counter
        if key is not None:
            self.done.setdefault(box.name, []).append(done)
            box.hear(key.issued, at)
            if key.revoked is not None:
                summary.revoked_opened(at - key.revoked, verdict.until - key.revoked)
        summary.uncertain += not done.is_certain

    def record_time(self, product: int, time: int, at: int) -> None:
        """Compare a box's time with the known bounds."""
        if not (box := self.boxes[product]).agrees(time, at):
            self.summary.disagreements.append(
                f"{box.name}: its clock is {at - time} s slow, beyond the documented bound"
            )

    def carried(self, product: int, artefact: SignedMessage, at: int, code: BoxRefusalCode) -> None:
        """Record an artefact carried to a box; `code` is the reason of a rejection."""
        box, claims = self.boxes[product], artefact.claims
        taken, is_new = code is BoxRefusalCode.GOOD, self._is_new(box, artefact)
        if taken and not is_new:
            self.summary.disagreements.append(f"{box.name}: accepted an artefact that is old or of another box")
        if code in (BoxRefusalCode.OLDER, BoxRefusalCode.GENERATION) and is_new and not box.forged:
            self.summary.disagreements.append(f"{box.name}: rejected a newer artefact: {code.text}")
        if not taken:
            self.summary.not_taken += 1
            return
        self.summary.carried += 1
        if artefact.message is TIME:
            box.set(claims["iat"], at)
            return
        if artefact.message in (KEY_SET, ROOT):  # these do not move the clock
            had_revoked = self._has_revoked(box)
            box.sequence = claims["sequence"]
            if self._has_revoked(box) and not had_revoked:
                box.listed = box.forged = 0  # its lists were dropped with their signer
            return
        box.hear(claims["iat"], at)
        if artefact.message is STATUS_LIST:
            box.listed = claims["iat"]

    def poisoned(self, product: int, iat: int, at: int) -> None:
        """Record that a box accepted a thief's list with this `iat`."""
        box = self.boxes[product]
        box.hear(iat, at)
        box.forged = iat

    def _is_new(self, box: Knowledge, artefact: SignedMessage) -> bool:
        claims = artefact.claims
        if artefact.message in (KEY_SET, ROOT):
            return claims["sequence"] > box.sequence
        return claims["aud"] == box.name and (artefact.message is not STATUS_LIST or claims["iat"] > box.listed)
