"""The box in C for tests, with the Python box's interface.

It is built from reference/box.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

from keyrack.offline_keys.box.lock_operation import LockAction
from keyrack.offline_keys.box.state import BoxLogState, BoxMemory
from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys import c_structs
from tests.offline_keys.c_sources import BOX
from tests.offline_keys.c_structs import BoxInC, Test

STOOD = (1 << 64) - 1  # KR_CLOCK_STOOD
STACK = 1 << 17


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a message: `firmware.MessageResult` without the state."""

    reply: bytes
    effect: LockAction
    code: BoxRefusalCode
    persist: bool


def library(path: Path | None = None) -> ctypes.CDLL:
    """The box and the bridge: built here, or loaded from `path`."""
    built = ctypes.CDLL(str(path or BOX.build / "libkeyrack_box_test.so"))
    built.kr_test_size.restype = built.kr_test_box_size.restype = built.kr_test_stack.restype = ctypes.c_size_t
    built.kr_test_transports_size.restype = ctypes.c_size_t
    built.kr_box_is_proven.restype = ctypes.c_bool
    assert built.kr_test_size() == ctypes.sizeof(Test)
    assert built.kr_test_box_size() == ctypes.sizeof(BoxInC)
    return built


class CBox:
    """A box in C.

    With `stubbed`, a signature is valid unless it begins with 255, and its own are a hash, twice.
    """

    def __init__(self, built: ctypes.CDLL, private_key: bytes, *, stubbed: bool = False) -> None:
        self.test = Test()
        self._built = built
        self._begin = (private_key, stubbed)
        self._at = ctypes.byref(self.test)
        self._reply = ctypes.create_string_buffer(LONGEST)
        self._outcome = (ctypes.c_uint32 * 4)()
        self._built.kr_test_begin(self._at, *self._begin)

    def receive(self, link: int, message: bytes, tick: int, random: bytes) -> Outcome:
        ctypes.memmove(self.test.random, random, len(random))
        length, outcome = ctypes.c_size_t(len(message)), self._outcome
        self._built.kr_test_receive(self._at, link, message, length, ctypes.c_uint64(tick), self._reply, outcome)
        code, effect, said, persist = outcome
        return Outcome(self._reply.raw[:said], LockAction(effect), BoxRefusalCode(code), bool(persist))

    def reset(self, point: bytes, secret: bytes, tick: int) -> None:
        ctypes.memmove(self.test.random, secret, len(secret))
        assert self._built.kr_test_reset(self._at, point, ctypes.c_uint64(tick))

    def start(self, elapsed: int | None, tick: int) -> bool:
        since = ctypes.c_uint64(STOOD if elapsed is None else elapsed)
        return bool(self._built.kr_test_start(self._at, since, ctypes.c_uint64(tick)))

    def start_damaged(self, tick: int) -> None:
        self._built.kr_test_start_damaged(self._at, ctypes.c_uint64(tick))

    def write_down(self, tick: int) -> bool:
        return bool(self._built.kr_test_write_down(self._at, ctypes.c_uint64(tick)))

    def connect(self, tick: int) -> int:
        """The number of a new link."""
        link: int = self._built.kr_test_connect(self._at, ctypes.c_uint64(tick))
        return link

    def disconnect(self, link: int) -> None:
        self._built.kr_test_disconnect(self._at, link)

    def is_proven(self, link: int) -> bool:
        """Whether possession of a key is proven on this link."""
        return bool(self._built.kr_box_is_proven(ctypes.byref(self.test.box), link))

    def advertised_name(self, tick: int) -> str:
        """The name that the box advertises at this tick."""
        name = ctypes.create_string_buffer(8)
        self._built.kr_box_name(ctypes.byref(self.test.box), ctypes.c_uint64(tick), name)
        return name.raw.decode()

    def is_point(self, point: bytes) -> bool:
        return bool(self._built.kr_test_is_point(self._at, point))

    def verify(self, point: bytes, digest: bytes, signature: bytes) -> bool:
        return bool(self._built.kr_test_verify(self._at, point, digest, signature))

    def stack(self, link: int, message: bytes, tick: int) -> int:
        """The bytes of stack that a message needs, which `stack_bytes` then has."""
        self._stack, size = ctypes.create_string_buffer(STACK), ctypes.c_size_t(STACK)
        length, at = ctypes.c_size_t(len(message)), ctypes.c_uint64(tick)
        depth: int = self._built.kr_test_stack(self._at, link, message, length, at, self._reply, self._stack, size)
        return depth

    @property
    def stack_bytes(self) -> bytes:
        """The stack after the last message of `stack`."""
        return self._stack.raw

    def load(self, state: BoxMemory, tick: int) -> None:
        """Load this state, at this tick."""
        self.test.box = BoxInC()
        self._built.kr_test_begin(self._at, *self._begin)
        c_structs.put(self.test.box, state, tick)
        for number, entry in enumerate(state.kept.log.entries, state.kept.log.first):
            c_structs.put_entry(self.test, number, entry)

    def state(self) -> BoxMemory:
        """The present state."""
        kept = self.test.box.kept
        entries = tuple(c_structs.entry(self.test, number) for number in range(kept.first, kept.next))
        return c_structs.state(self.test.box, BoxLogState(entries, kept.next, bytes(kept.newest)))
