"""In charge of what phone, tool and box say to each other on a link: arrays, whose first number says what they are."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, TypeVar

from keyrack.offline_keys.cbor import CborError, Value, decode, encode
from keyrack.offline_keys.cbor_types import CborType, alone, array, number, octets, record, several, text
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

LONGEST = 1536  # bytes of a message, in both directions
VERSION = 1
MOST_ENTRIES = 4  # of one message


class Hello(NamedTuple):
    version: int = VERSION


class Challenge(NamedTuple):
    """What a box has, and the nonce by which it wants to be answered. It is not signed."""

    version: int
    name: str  # "" before the first provisioning
    nonce: bytes  # 16 bytes
    time: int  # seconds since 1970
    certain: int
    sequence: int  # of the key set, 0 for none
    generation: int  # of the newest list, 0 for none
    listed: int  # iat of that list, 0 for none
    first: int  # the lowest number of the log that is held
    next: int
    newest: bytes  # SHA-256 of the newest entry, zeros before the first


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
)
Kind = TypeVar("Kind", bound=Said)

_NONCE, _HASH, _COUNT, _BIT, _SIGNED = octets(16), octets(32), number(0), number(0, 1), octets()
_CODE = CborType(lambda value: BoxRefusalCode(number(0, max(BoxRefusalCode)).read(value)), int)
_HAS = (
    number(VERSION, VERSION), text(40, shortest=0), _NONCE, _COUNT, _BIT, _COUNT, _COUNT, _COUNT, _COUNT, _COUNT, _HASH
)  # fmt: skip
SHAPES: dict[type[Said], tuple[int, CborType]] = {
    Hello: (1, array(number(VERSION, VERSION))),
    Challenge: (2, alone(record(Challenge, dict(enumerate(_HAS, 1))))),
    CarryMessage: (3, array(_SIGNED)),
    AcceptedMessage: (4, array(_BIT)),
    Open: (5, array(_SIGNED, _SIGNED)),
    Result: (6, array(_CODE, _SIGNED)),
    Fetch: (7, array(_COUNT)),
    EntriesMessage: (8, array(_COUNT, several(_SIGNED, MOST_ENTRIES, least=0))),
    Enrol: (9, array(_NONCE)),
    EnrolledMessage: (10, array(_SIGNED)),
    Provision: (11, array(_SIGNED, _SIGNED, _SIGNED)),
}


def write(said: Said) -> bytes:
    """The message. Raises `CborError` for what cannot be said."""
    first, form = SHAPES[type(said)]
    values = form.write(said)
    form.read(values)
    return encode([first, *_items(values)])


def read(data: bytes, *kinds: type[Kind]) -> Kind:
    """What is said, one of these. Raises `MessageRefused`: too-long, encoding, structure."""
    if len(data) > LONGEST:
        raise MessageRefused(BoxRefusalCode.TOO_LONG)
    try:
        items = decode(data)
    except CborError:
        raise MessageRefused(BoxRefusalCode.ENCODING) from None
    for kind in kinds:
        first, form = SHAPES[kind]
        try:
            if (values := _items(items))[:1] == [first]:
                return kind(*form.read(values[1:]))
        except CborError:
            break
    raise MessageRefused(BoxRefusalCode.STRUCTURE)


def _items(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise CborError("this is no array")
    return value
