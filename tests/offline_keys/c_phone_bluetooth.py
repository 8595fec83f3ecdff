"""The Bluetooth side of the phone in C."""

from __future__ import annotations

import ctypes
from enum import IntEnum

from keyrack.offline_keys.link_messages import LONGEST
from tests.offline_keys import c_phone
from tests.offline_keys.c_transports import Byte, Bytes, Flag, Reassembly, Short, Uint, Word, given, written


class Ble(ctypes.Structure):
    _fields_ = [
        ("message", Bytes), ("reply", ctypes.c_void_p), ("reassembly", Reassembly), ("busy_until", Uint),
        ("silent_until", Uint), ("whole_until", Uint), ("random", Word), ("size", Short),
        ("fragments", Short), ("reply_len", Short), ("exchange", Byte), ("sent", Byte), ("step", Byte),
        ("is_writing", Flag),
    ]  # fmt: skip


class Exchange(IntEnum):
    NONE = 0
    RUNNING = 1
    REPLY = 2
    BUSY = 3
    LOST = 4


class Sent(IntEnum):
    """How much of a message the phone has sent."""

    NONE = 0
    PART = 1
    ALL = 2


class CPhoneBluetooth:
    """One connection of a phone in C. Times are in milliseconds."""

    def __init__(self, built: ctypes.CDLL) -> None:
        assert c_phone.sizes(built)[-1] == ctypes.sizeof(Ble)
        built.kr_phone_ble_connect.restype = built.kr_phone_ble_send.restype = Flag
        built.kr_phone_ble_next.restype = ctypes.c_size_t
        self._built = built
        self._struct = Ble()
        self._at = ctypes.byref(self._struct)
        self._reply = (Byte * LONGEST)()

    def connect(self, size: bytes, random: int = 0) -> bool:
        return self._built.kr_phone_ble_connect(self._at, given(size), Word(random))

    def send(self, message: bytes, now: int) -> bool:
        given_message = given(message)
        is_begun: bool = self._built.kr_phone_ble_send(self._at, given_message, self._reply, Uint(now))
        if is_begun:
            self._message = given_message  # the phone does not copy it
        return is_begun

    def next(self, now: int) -> bytes | None:
        return written(self._struct.size, lambda out: self._built.kr_phone_ble_next(self._at, Uint(now), out))

    def written(self, now: int) -> None:
        self._built.kr_phone_ble_written(self._at, Uint(now))

    def receive(self, fragment: bytes, now: int) -> None:
        self._built.kr_phone_ble_receive(self._at, given(fragment), Uint(now))

    def lose(self) -> None:
        self._built.kr_phone_ble_lose(self._at)

    def tick(self, now: int) -> Exchange:
        return Exchange(self._built.kr_phone_ble_tick(self._at, Uint(now)))

    @property
    def sent(self) -> Sent:
        return Sent(self._struct.sent)

    @property
    def reply(self) -> bytes:
        return bytes(self._reply[: self._struct.reply_len])
