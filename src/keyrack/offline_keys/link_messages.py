"""Messages between phone, tool and box: arrays that begin with their type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

from keyrack.offline_keys.cbor import CborError, Value, decode, encode
from keyrack.offline_keys.cbor_types import CborType, alone, array, ascending, number, octets, record, several, text
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

LONGEST = 2048  # bytes of a message, in both directions
VERSIONS = (2,)  # supported versions of the protocol
MOST_ENTRIES = 4  # per message
SKIPPABLE = 128  # fields of a challenge from this number on are skipped


class Hello(NamedTuple):
    versions: list[int]  # supported by the phone, ascending


class Challenge(NamedTuple):
    """The state of a box, and the nonce to answer. It is not signed."""

    version: int
    name: str  # "" before the first provisioning
    nonce: bytes  # 16 bytes
    time: int  # seconds since 1970
    certain: int
    sequence: int  # of the newest key set or new root, 0 for none
    generation: int  # of the newest list, 0 for none
    listed: int  # iat of that list, 0 for none
    first: int  # the lowest stored number of the log
    next: int
    newest: bytes  # SHA-256 of the newest entry, zeros before the first
    root: bytes  # kid of the root, 8 bytes; empty before the first provisioning


class CarryMessage(NamedTuple):
    artefact: bytes


class AcceptedMessage(NamedTuple):
    refused: int


class Open(NamedTuple):
    key: bytes
    answer: bytes


class Result(NamedTuple):
    code: BoxRefusalCode
    entry: bytes = b""


class Fetch(NamedTuple):
    begin: int


class EntriesMessage(NamedTuple):
    next: int
    entries: list[bytes]


class Enrol(NamedTuple):
    nonce: bytes  # 16 bytes


class EnrolledMessage(NamedTuple):
    enrolment: bytes


class Provision(NamedTuple):
    provisioning: bytes
    key_set: bytes
    status_list: bytes


class VersionsMessage(NamedTuple):
    versions: list[int]  # supported by the box, if the phone supports none of them


Said: TypeAlias = (
    Hello
    | Challenge
    | CarryMessage
    | AcceptedMessage
    | Open
    | Result
    | Fetch
    | EntriesMessage
    | Enrol
    | EnrolledMessage
    | Provision
    | VersionsMessage
)
Kind = TypeVar("Kind", bound=Said)


def _without_skippable(form: CborType) -> CborType:
    def read(value: Value) -> Any:
        if isinstance(value, dict):
            value = {key: each for key, each in value.items() if not isinstance(key, int) or key < SKIPPABLE}
        return form.read(value)

    return CborType(read, form.write)


_NONCE, _HASH, _COUNT, _BIT, _SIGNED = octets(16), octets(32), number(0), number(0, 1), octets()
_CODE = CborType(lambda value: _known_code(_COUNT.read(value)), int)
_VERSIONS = ascending(several(_COUNT, 8))
_SPOKEN = number(min(VERSIONS), max(VERSIONS))
_HAS = (
    _SPOKEN, text(40, shortest=0), _NONCE, _COUNT, _BIT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _HASH, octets(0, 8),
)  # fmt: skip
SHAPES: dict[type[Said], tuple[int, CborType]] = {
    Hello: (1, array(_VERSIONS)),
    Challenge: (2, alone(_without_skippable(record(Challenge, dict(enumerate(_HAS, 1)))))),
    CarryMessage: (3, array(_SIGNED)),
    AcceptedMessage: (4, array(_BIT)),
    Open: (5, array(_SIGNED, _SIGNED)),
    Result: (6, array(_CODE, _SIGNED)),
    Fetch: (7, array(_COUNT)),
    EntriesMessage: (8, array(_COUNT, several(_SIGNED, MOST_ENTRIES, least=0))),
    Enrol: (9, array(_NONCE)),
    EnrolledMessage: (10, array(_SIGNED)),
    Provision: (11, array(_SIGNED, _SIGNED, _SIGNED)),
    VersionsMessage: (12, array(_VERSIONS)),
}
KNOWN = {first for first, _ in SHAPES.values()}


def _known_code(code: int) -> BoxRefusalCode:
    """The code. A newer box may have a code that is unknown here: it counts as `refused`."""
    return BoxRefusalCode(code) if code <= max(BoxRefusalCode) else BoxRefusalCode.REFUSED


def hello() -> Hello:
    """The first message of a phone, with all versions of this program."""
    return Hello(list(VERSIONS))


def write(said: Said) -> bytes:
    """The encoded message. Raises `CborError` if a value is invalid."""
    first, form = SHAPES[type(said)]
    values = form.write(said)
    form.read(values)
    return encode([first, *_items(values)])


def read(data: bytes, *kinds: type[Kind]) -> Kind:
    """The message, which must be of one of these types.

    Raises `MessageRefused`: too-long, encoding, structure, unknown.
    """
    if len(data) > LONGEST:
        raise MessageRefused(BoxRefusalCode.TOO_LONG)
    try:
        items = decode(data)
    except CborError:
        raise MessageRefused(BoxRefusalCode.ENCODING) from None
    match items:
        case [int(first), *values] if first >= 0:
            return _of_kind(first, values, kinds)
        case _:
            raise MessageRefused(BoxRefusalCode.STRUCTURE)


def _of_kind(first: int, values: list[Value], kinds: tuple[type[Kind], ...]) -> Kind:
    if first not in KNOWN:
        raise MessageRefused(BoxRefusalCode.UNKNOWN)
    kind = next((kind for kind in kinds if SHAPES[kind][0] == first), None)
    if kind is None:
        raise MessageRefused(BoxRefusalCode.STRUCTURE)
    make: Callable[..., Kind] = kind
    try:
        return make(*SHAPES[kind][1].read(values))
    except CborError:
        raise MessageRefused(BoxRefusalCode.STRUCTURE) from None


def _items(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise CborError("this is no array")
    return value
