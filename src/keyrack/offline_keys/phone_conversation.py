"""A conversation of the reference phone with a box.

It has no input, output or clock: generators yield what the app does next, and get the reply and the time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias, TypeVar

from keyrack.offline_keys import cose, link_messages, p256, phone, phone_state
from keyrack.offline_keys.cose import MessageRefused, SignedMessage
from keyrack.offline_keys.link_messages import (
    VERSIONS,
    AcceptedMessage,
    CarryMessage,
    Challenge,
    EntriesMessage,
    Fetch,
    Result,
    Said,
    VersionsMessage,
)
from keyrack.offline_keys.message_fields import TIME
from keyrack.offline_keys.phone import Sign
from keyrack.offline_keys.phone_state import HeldBox, HeldKey, PhoneState
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode as Code

MOST_FETCHES = 300  # a box holds 1,024 entries, and gives 4 at a time
MOST_KEYS = 3  # tried for one command, because each attempt costs a token of the box
# Rejections of one key, after which another key for the same box may open
OF_ONE_KEY = {
    Code.REFUSED, Code.NOT_YET, Code.EXPIRED, Code.UNCERTAIN, Code.LIST, Code.INDEX, Code.REVOKED, Code.STALE,
    Code.RIGHT,
}  # fmt: skip

Verify = Callable[[PublicKey, bytes, bytes], bool]
Kind = TypeVar("Kind", bound=Said)


class PhoneAction(IntEnum):
    """The remedy that an app shows."""

    NONE = 0
    AGAIN = 1
    WAIT = 2
    ONLINE = 3
    ASK = 4
    LOOK = 5
    UPDATE = 6


ACTIONS = {
    Code.COUNTER: PhoneAction.AGAIN,
    Code.NOT_YET: PhoneAction.WAIT,
    Code.BUSY: PhoneAction.WAIT,
    Code.ISSUER: PhoneAction.ASK,
    Code.REVOKED: PhoneAction.ASK,
    Code.RIGHT: PhoneAction.ASK,
    Code.UNKNOWN: PhoneAction.ASK,
}


def action(code: int) -> PhoneAction:
    """The remedy for a box's code, also for an unknown number."""
    return ACTIONS.get(Code(code), PhoneAction.ONLINE) if code <= max(Code) else PhoneAction.ONLINE


class ConversationEnd(IntEnum):
    DONE = 0  # the box has opened or closed, or its log is fetched
    NO_KEY = 1  # the phone has no key for this box
    REFUSED = 2  # the box has rejected the command
    UNKNOWN = 3  # the box may have opened, or not
    LOST = 4  # the connection was lost before the command
    VERSION = 5  # the app or the box is too old
    INVALID = 6  # the box sent an invalid message
    OTHER_BOX = 8  # this is the box of another car; 7 is of the phone in C alone


class Ending(NamedTuple):
    end: ConversationEnd
    code: Code = Code.GOOD
    action: PhoneAction = PhoneAction.NONE


class SendMessage(NamedTuple):
    """Send this message; the generator gets the reply."""

    message: bytes


class AskTime(NamedTuple):
    """Get the message of `POST /sdk/time`; the generator gets it, or no bytes."""

    box: str
    nonce: bytes


class ConnectionLost(Exception):
    """Thrown into a generator: the connection is lost.

    `is_whole`: the whole message was sent, or it is unknown how much.
    """

    def __init__(self, *, is_whole: bool) -> None:
        super().__init__("the connection is lost")
        self.is_whole = is_whole


class _Ended(Exception):
    def __init__(self, end: ConversationEnd, code: Code = Code.GOOD, action: PhoneAction = PhoneAction.NONE) -> None:
        super().__init__(end.name)
        self.ending = Ending(end, code, action)


Reply: TypeAlias = tuple[bytes, int]  # with the time, in milliseconds since 1970
Steps: TypeAlias = Generator[SendMessage | AskTime, Reply, Any]
Conversation: TypeAlias = Generator[SendMessage | AskTime, Reply, Ending]


@dataclass(slots=True)
class PhoneConversation:
    """A conversation over one link. It changes `state`."""

    state: PhoneState
    public: PublicKey
    sign: Sign
    has_network: bool = False
    verify: Verify = p256.verify
    product: int = 0  # of the wanted box, so that no key opens another one; 0 for any box
    challenge: Challenge | None = None
    counter: int = 0  # of the last command
    key: HeldKey | None = None  # used last
    _message: bytes = b""  # of the challenge
    _now: int = 0

    def command(self, command: int) -> Conversation:
        """Bring what the box lacks, then open (1) or close (2)."""
        return _whole(self._visit(command))

    def fetch(self) -> Conversation:
        """Fetch the log on a link with a proven key."""
        return _whole(self._fetch())

    def has_done_nothing(self, later: Challenge) -> bool:
        """Whether a lost command had no effect, by a later challenge."""
        challenge = self.challenge
        return challenge is not None and (later.name, later.next) == (challenge.name, challenge.next)

    def _visit(self, command: int) -> Steps:
        """New roots and the key set verify the rest. A time precedes lists that may be ahead of the clock.

        Each stage that brought something is followed by a new challenge, because a nonce lives for 10 s.
        """
        challenge = yield from self._hello()
        name = challenge.name
        if (yield from self._bring(phone_state.authority_for(self.state, challenge))):
            challenge = yield from self._hello(name)
        if (yield from self._set_clock(challenge)):
            challenge = yield from self._hello(name)
        if (yield from self._bring(phone_state.artefacts_for(self.state, challenge))):
            challenge = yield from self._hello(name)
        return (yield from self._open(challenge, command))

    def _hello(self, name: str | None = None) -> Generator[SendMessage | AskTime, Reply, Challenge]:
        """A challenge of the wanted box.

        The box keeps its name during a visit. Otherwise a fake box could try out which boxes the phone knows.
        """
        reply = yield from self._send(link_messages.write(link_messages.hello()))
        said = _read(reply, Challenge, VersionsMessage)
        if isinstance(said, VersionsMessage):
            if set(said.versions) & set(VERSIONS):
                raise _Ended(ConversationEnd.INVALID, Code.STRUCTURE)
            is_newer = max(said.versions) > max(VERSIONS)
            raise _Ended(ConversationEnd.VERSION, action=PhoneAction.UPDATE if is_newer else PhoneAction.ASK)
        if self.product and said.name and not said.name.startswith(f"box:{self.product}:"):
            raise _Ended(ConversationEnd.OTHER_BOX, action=PhoneAction.AGAIN)
        if name not in (None, said.name):
            raise _Ended(ConversationEnd.INVALID, Code.AUDIENCE)
        self.challenge, self._message = said, reply
        return said

    def _bring(self, artefacts: list[bytes]) -> Generator[SendMessage | AskTime, Reply, bool]:
        """Whether there was anything to bring. A rejected artefact is not brought again."""
        for artefact in artefacts:
            _read((yield from self._send(link_messages.write(CarryMessage(artefact)))), AcceptedMessage)
        return bool(artefacts)

    def _set_clock(self, challenge: Challenge) -> Generator[SendMessage | AskTime, Reply, bool]:
        """Bring a signed time, which ends the nonce in any case."""
        if not self.has_network or phone_state.is_clock_right(challenge, self._now):
            return False
        time, self._now = yield AskTime(challenge.name, challenge.nonce)
        return (yield from self._bring([time] if time and len(time) <= TIME.limit else []))

    def _open(self, challenge: Challenge, command: int) -> Steps:
        """Use the best key. If the box rejects that one, another one may open."""
        box = phone_state.box_of(self.state, challenge.name)
        keys = phone_state.keys_for(self.state, challenge.name, self._now)[:MOST_KEYS]
        if box is None or not keys:
            raise _Ended(ConversationEnd.NO_KEY, action=PhoneAction.ONLINE)
        refusals: list[Code] = []
        for key in keys:
            if refusals:
                yield from self._hello(box.name)
            code = yield from self._use(key, box, command)
            if code is Code.GOOD:
                return
            if code not in OF_ONE_KEY:
                raise _Ended(ConversationEnd.REFUSED, code, action(code))
            refusals.append(code)
        raise _Ended(ConversationEnd.REFUSED, refusals[0], action(refusals[0]))

    def _use(self, key: HeldKey, box: HeldBox, command: int) -> Generator[SendMessage | AskTime, Reply, Code]:
        self.state = phone_state.next_counter(self.state, self._now)
        self.counter, self.key = self.state.counter, key
        said = phone.answer(self._message, key.message, command, self.counter, self.sign)
        unknown = _Ended(ConversationEnd.UNKNOWN, action=PhoneAction.LOOK)
        try:
            result = link_messages.read((yield from self._send(link_messages.write(said))), Result)
        except ConnectionLost as lost:
            raise (unknown if lost.is_whole else lost) from None
        except MessageRefused:
            raise unknown from None
        entry = self._entry(box, result.entry)
        if result.code is Code.GOOD and (entry is None or not self._is_proof(entry, command)):
            raise unknown
        if entry is not None:
            self.state = phone_state.keep_entries(self.state, box.name, [entry.raw])
        return result.code

    def _is_proof(self, entry: SignedMessage, command: int) -> bool:
        """Whether the entry is of this command, and no older one."""
        claims = entry.claims
        expected = command, self.counter, self.public.thumbprint
        return (claims["event"], claims["counter"], claims["device"]) == expected

    def _entry(self, box: HeldBox, data: bytes) -> SignedMessage | None:
        try:
            return self._entry_of(box, data)
        except MessageRefused:
            return None

    def _entry_of(self, box: HeldBox, data: bytes) -> SignedMessage:
        """An entry that this box has signed, with a low s. Raises `MessageRefused`."""
        entry = cose.read_entry(data)
        if entry.claims["aud"] != box.name:
            raise MessageRefused(Code.AUDIENCE)
        if box.key is not None and not (
            entry.kid == box.key.kid and self.verify(box.key, entry.to_be_signed, entry.signature)
        ):
            raise MessageRefused(Code.SIGNATURE)
        return entry

    def _fetch(self) -> Steps:
        challenge = self.challenge
        box = None if challenge is None else phone_state.box_of(self.state, challenge.name)
        if challenge is None or box is None:
            raise _Ended(ConversationEnd.NO_KEY, action=PhoneAction.ONLINE)
        begin = phone_state.first_missing(self.state, box.name, challenge.first)
        for _ in range(MOST_FETCHES):
            said = _read((yield from self._send(link_messages.write(Fetch(begin)))), EntriesMessage)
            following = self._keep(box, said.entries, begin)
            begin = phone_state.first_missing(self.state, box.name, following)
            if not said.entries or not phone_state.entry_room(self.state, box.name) or begin >= said.next:
                return

    def _keep(self, box: HeldBox, entries: list[bytes], least: int) -> int:
        """Keep all entries, or none if the box did not sign one. Returns the number after the last one."""
        kept: list[bytes] = []
        for data in entries:
            try:
                entry = self._entry_of(box, data)
            except MessageRefused as refused:
                raise _Ended(ConversationEnd.INVALID, refused.code) from None
            if entry.claims["number"] < least:
                raise _Ended(ConversationEnd.INVALID, Code.STRUCTURE)
            least = entry.claims["number"] + 1
            kept.append(entry.raw)
        self.state = phone_state.keep_entries(self.state, box.name, kept)
        return least

    def _send(self, message: bytes) -> Generator[SendMessage | AskTime, Reply, bytes]:
        reply, self._now = yield SendMessage(message)
        return reply


def _whole(steps: Steps) -> Conversation:
    try:
        yield from steps
    except _Ended as ended:
        return ended.ending
    except ConnectionLost:
        return Ending(ConversationEnd.LOST, action=PhoneAction.AGAIN)
    return Ending(ConversationEnd.DONE)


def _read(reply: bytes, *kinds: type[Kind]) -> Kind:
    """The expected reply. A box answers with a result what it rejects."""
    try:
        said = link_messages.read(reply, Result, *kinds)
    except MessageRefused as refused:
        code = Code.STRUCTURE if refused.code is Code.UNKNOWN else refused.code
        raise _Ended(ConversationEnd.INVALID, code) from None
    if isinstance(said, Result):
        raise _Ended(ConversationEnd.REFUSED, said.code, action(said.code))
    return said
