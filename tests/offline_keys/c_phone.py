"""The phone in C for tests, with states of the Python phone.

It is built from reference/phone-core.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from keyrack.offline_keys.cbor import Value, decode, encode
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.message_fields import CLOSE, OPEN
from keyrack.offline_keys.phone_conversation import ConversationEnd, Ending, PhoneAction
from keyrack.offline_keys.phone_state import HeldBox, HeldKey, KeysAnswer, PhoneState
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.c_sources import PHONE

ROOMS = (4, 8, 4, 8, 4, 1_110)  # roots, keys, boxes, lists, receipts, entries
UNSIGNED = 7  # KR_END_UNSIGNED
DUMP = 1 << 20
SEND, ASK_TIME = 0, 1
BEGIN, RECEIVE, TIME, LOSE, FETCH = range(5)
SIGNED, STUBBED, SIGNS_NOTHING = range(3)


def library(path: Path | None = None) -> ctypes.CDLL:
    """The phone and the bridge: built here, or loaded from `path`."""
    built = ctypes.CDLL(str(path or PHONE.build / "libkeyrack_phone_test.so"))
    built.kr_phone_test_begin.restype = ctypes.c_void_p
    for name in ("dump", "keys", "registration"):
        getattr(built, f"kr_phone_test_{name}").restype = ctypes.c_size_t
    for name in ("counter", "missing"):
        getattr(built, f"kr_phone_test_{name}").restype = ctypes.c_uint64
    return built


def sizes(built: ctypes.CDLL) -> list[int]:
    """The bytes of the structs: state, conversation, then those of `ROOMS`."""
    found = (ctypes.c_uint64 * 8)()
    built.kr_phone_test_sizes(found)
    return list(found)


def encoded(answer: KeysAnswer) -> bytes:
    """An answer of the server as the bridge reads it."""
    keys: list[Value] = [[key.message, key.assignment, key.renew_after] for key in answer.keys]
    boxes: list[Value] = [
        [box.name.encode(), box.key or b"", list[Value](box.lists), box.receipt or b""] for box in answer.boxes
    ]
    return encode([answer.key_set or b"", list[Value](answer.roots), keys, boxes])


class CPhone:
    """A phone in C. With `STUBBED`, a signature is valid unless it begins with 255, and its own are a hash, twice."""

    def __init__(
        self,
        built: ctypes.CDLL,
        private_key: bytes,
        public: PublicKey,
        *,
        signs: int = SIGNED,
        rooms: Sequence[int] = ROOMS,
    ) -> None:
        self._built = built
        room = (ctypes.c_uint64 * 6)(*rooms)
        self._at = ctypes.c_void_p(built.kr_phone_test_begin(private_key, public.x + public.y, signs, room))
        self._out = ctypes.create_string_buffer(LONGEST)

    def __enter__(self) -> CPhone:
        return self

    def __exit__(self, *_: object) -> None:
        self._built.kr_phone_test_end(self._at)

    def load(self, state: PhoneState, answer: KeysAnswer) -> None:
        """Load a state as an app does after its start. `answer` has what the state has of the server."""
        self.take_keys(answer, state.met_server)
        self.bring_home([], state.receipts)
        for entry in state.entries:
            assert not self._call("keep", entry, ctypes.c_size_t(len(entry)))
        self._built.kr_phone_test_set(self._at, ctypes.c_uint64(state.counter), ctypes.c_uint64(state.met_server))
        assert self.state() == state

    def state(self) -> PhoneState:
        out = ctypes.create_string_buffer(DUMP)
        length = self._call("dump", out, ctypes.c_size_t(DUMP))
        key_set, roots, boxes, keys, lists, receipts, entries, counter, met = cast(
            "list[Any]", decode(ctypes.string_at(out, length))
        )
        return PhoneState(
            key_set or None,
            tuple(roots),
            tuple(HeldBox(name, PublicKey(key[:32], key[32:]) if key else None) for name, key in boxes),
            tuple(HeldKey(*key) for key in keys),
            tuple(lists),
            tuple(receipts),
            tuple(entries),
            counter,
            met,
        )

    def take_keys(self, answer: KeysAnswer, now: int) -> None:
        data = encoded(answer)
        _check(self._call("take", data, ctypes.c_size_t(len(data)), ctypes.c_uint64(now)))

    def bring_home(self, entries: Sequence[bytes], receipts: Sequence[bytes]) -> None:
        data = encode([list[Value](entries), list[Value](receipts)])
        _check(self._call("home", data, ctypes.c_size_t(len(data))))

    def bring_home_own(self, begin: int, count: int) -> None:
        """Bring home entries of the phone's own memory, from one on."""
        _check(self._call("home_own", ctypes.c_size_t(begin), ctypes.c_size_t(count)))

    def keep(self, entry: bytes) -> None:
        _check(self._call("keep", entry, ctypes.c_size_t(len(entry))))

    def have_met(self, now: int) -> None:
        self._call("met", ctypes.c_uint64(now))

    def next_counter(self, now: int) -> int:
        return self._call("counter", ctypes.c_uint64(now))

    def brings(self, challenge: bytes, now: int) -> tuple[list[bytes], list[bytes], bool]:
        """The artefacts of both stages, and whether the box's clock is right. Raises `MessageRefused`."""
        out, written = ctypes.create_string_buffer(DUMP), ctypes.c_size_t()
        arguments = challenge, ctypes.c_size_t(len(challenge)), ctypes.c_uint64(now)
        _check(self._call("brings", *arguments, out, ctypes.c_size_t(DUMP), ctypes.byref(written)))
        authority, artefacts, is_right = cast("list[Any]", decode(ctypes.string_at(out, written.value)))
        return authority, artefacts, bool(is_right)

    def keys(self, box: str, now: int) -> list[tuple[bytes, bool]]:
        """The keys for a box, the best one first.

        Each has whether the user is warned.
        """
        out, name = ctypes.create_string_buffer(DUMP), box.encode()
        length = self._call("keys", name, ctypes.c_size_t(len(name)), ctypes.c_uint64(now), out, ctypes.c_size_t(DUMP))
        return [(key, bool(overdue)) for key, overdue in cast("list[Any]", decode(ctypes.string_at(out, length)))]

    def first_missing(self, box: str, first: int) -> int:
        name = box.encode()
        return self._call("missing", name, ctypes.c_size_t(len(name)), ctypes.c_uint64(first))

    def registration(self, subject: bytes, nonce: bytes) -> bytes:
        length = self._call("registration", subject, ctypes.c_size_t(len(subject)), nonce, self._out)
        return self._out.raw[:length]

    def begin(self, command: int, *, has_network: bool, product: int = 0) -> bytes | Ending | int | None:
        """Begin a visit to the box of `product`, or to any."""
        following = self.call(BEGIN, b"", command + (16 if has_network else 0))
        if product:
            self._call("want", ctypes.c_uint32(product))
        return following

    def call(self, call: int, message: bytes, now: int = 0) -> bytes | Ending | int | None:
        """The next message, an ending, or None for a time. `UNSIGNED` has no ending in Python."""
        following = (ctypes.c_uint64 * 6)()
        length = ctypes.c_size_t(len(message))
        self._call("call", call, message, length, ctypes.c_uint64(now), following, self._out)
        what, end, code, action, self.saves, size = following
        if what == SEND:
            return self._out.raw[:size]
        if what == ASK_TIME:
            return None
        if end == UNSIGNED:
            return UNSIGNED
        return Ending(ConversationEnd(end), BoxRefusalCode(code), PhoneAction(action))

    def has_done_nothing(self, challenge: bytes) -> bool:
        return bool(self._call("nothing", challenge, ctypes.c_size_t(len(challenge))))

    def _call(self, name: str, *arguments: Any) -> int:
        result: int = getattr(self._built, f"kr_phone_test_{name}")(self._at, *arguments)
        return result


def command_of(call: str) -> int:
    return {"open": OPEN, "close": CLOSE}[call]


def _check(code: int) -> None:
    if code:
        raise MessageRefused(BoxRefusalCode(code))
