"""The transports of the box in C, with the interfaces of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from enum import IntEnum

from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports.message_buffer import Phase

Byte, Short, Word, Uint, Flag = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_bool
NO_LINK = LINKS  # KR_NO_LINK
NFC_RESPONSE_MOST = 258


class Bytes(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Waiting(ctypes.Structure):
    _fields_ = [("until", Uint), ("link", Byte)]


class Buffer(ctypes.Structure):
    _fields_ = [
        ("message", Byte * LONGEST), ("reply", Byte * LONGEST), ("began", Uint), ("contested_at", Uint),
        ("waiting", Waiting * LINKS), ("message_len", Short), ("reply_len", Short), ("taken", Short),
        ("waiting_count", Byte), ("phase", Byte), ("owner", Byte), ("abandoned", Flag), ("contested", Flag),
    ]  # fmt: skip


class Reassembly(ctypes.Structure):
    _fields_ = [
        ("began", Uint), ("last", Uint), ("length", Short), ("len", Short), ("command", Byte), ("sequence", Byte),
    ]  # fmt: skip


class BleLink(ctypes.Structure):
    _fields_ = [
        ("connected_at", Uint), ("drop_at", Uint), ("reassembly", Reassembly), ("connected", Flag),
        ("has_proven", Flag), ("failure", Byte),
    ]  # fmt: skip


class Ble(ctypes.Structure):
    _fields_ = [
        ("buffer", ctypes.c_void_p), ("links", BleLink * LINKS), ("busy_since", Uint), ("reply_until", Uint),
        ("sent", Short),
    ]  # fmt: skip


class Nfc(ctypes.Structure):
    _fields_ = [
        ("buffer", ctypes.c_void_p), ("url", Bytes), ("len", Short), ("expected", Short), ("link", Byte),
        ("selected", Byte), ("restarted", Flag),
    ]  # fmt: skip


class Wire(ctypes.Structure):
    _fields_ = [
        ("buffer", ctypes.c_void_p), ("crc", Word), ("reply_crc", Word), ("len", Short), ("sent", Short),
        ("tail", Byte * 4), ("link", Byte), ("state", Byte), ("block", Byte), ("left", Byte), ("sent_block", Byte),
        ("sent_left", Byte),
    ]  # fmt: skip


class Whole(ctypes.Structure):
    _fields_ = [("command", Byte), ("len", Short)]


class WireEvent(IntEnum):
    NOTHING = 0
    NEW_LINK = 1
    MESSAGE = 2


def given(data: bytes) -> Bytes:
    """`struct kr_bytes` of exactly these bytes. They live as long as it does."""
    held = (Byte * len(data)).from_buffer_copy(data) if data else None
    value = Bytes(ctypes.addressof(held) if held is not None else None, len(data))
    value.held = held  # type: ignore[attr-defined]
    return value


class CBuffer:
    """The message and the reply."""

    def __init__(self, built: ctypes.CDLL) -> None:
        assert built.kr_test_transports_size() == sum(ctypes.sizeof(each) for each in (Buffer, Ble, Nfc, Wire))
        self.struct = Buffer()
        built.kr_buffer_init(ctypes.byref(self.struct))

    @property
    def message(self) -> bytes:
        return bytes(self.struct.message[: self.struct.message_len])

    @property
    def phase(self) -> Phase:
        return tuple(Phase)[self.struct.phase]

    def put_reply(self, reply: bytes) -> ctypes.c_size_t:
        ctypes.memmove(self.struct.reply, reply, len(reply))
        return ctypes.c_size_t(len(reply))


class CBluetooth:
    """`BoxBluetooth` in C."""

    def __init__(self, built: ctypes.CDLL, buffer: CBuffer) -> None:
        self._built, self._buffer = built, buffer
        built.kr_ble_write.restype = built.kr_ble_has_room.restype = Flag
        built.kr_ble_next.restype = ctypes.c_size_t
        self.struct = Ble()
        self._at = ctypes.byref(self.struct)
        built.kr_ble_init(self._at, ctypes.byref(buffer.struct))

    def connect(self, link: int, now: int) -> None:
        self._built.kr_ble_connect(self._at, link, Uint(now))

    def disconnect(self, link: int) -> None:
        self._built.kr_ble_disconnect(self._at, link)

    def write(self, link: int, fragment: bytes, now: int) -> bytes | None:
        is_whole = self._built.kr_ble_write(self._at, link, given(fragment), Uint(now))
        return self._buffer.message if is_whole else None

    def reply(self, link: int, message: bytes, now: int, *, is_proven: bool) -> None:
        length = self._buffer.put_reply(message)
        self._built.kr_ble_reply(self._at, link, length, Flag(is_proven), Uint(now))

    def next_fragment(self, link: int, size: int, now: int) -> bytes | None:
        return _written(
            size, lambda out: self._built.kr_ble_next(self._at, link, ctypes.c_size_t(size), Uint(now), out)
        )

    def tick(self, now: int) -> list[int]:
        due = self._built.kr_ble_tick(self._at, Uint(now))
        return [link for link in range(LINKS) if due >> link & 1]

    @property
    def has_room(self) -> bool:
        return self._built.kr_ble_has_room(self._at)


class CNfcCard:
    """`NfcCard` in C."""

    def __init__(self, built: ctypes.CDLL, buffer: CBuffer, link: int, url: str | None = None) -> None:
        self._built, self._buffer = built, buffer
        built.kr_nfc_receive.restype = built.kr_nfc_reply.restype = ctypes.c_size_t
        self.struct = Nfc()
        self._at = ctypes.byref(self.struct)
        self._url = given((url or "").encode())
        built.kr_nfc_init(self._at, ctypes.byref(buffer.struct), link, self._url)

    def receive(self, apdu: bytes, now: int) -> bytes:
        return _written(NFC_RESPONSE_MOST, lambda out: self._receive(apdu, now, out)) or b""

    def _receive(self, apdu: bytes, now: int, out: ctypes.Array[ctypes.c_char]) -> int:
        length: int = self._built.kr_nfc_receive(self._at, given(apdu), Uint(now), out)
        return length

    @property
    def message(self) -> bytes:
        return self._buffer.message

    @property
    def is_restarted(self) -> bool:
        return self.struct.restarted

    def reply(self, message: bytes) -> bytes:
        length = self._buffer.put_reply(message)
        return _written(NFC_RESPONSE_MOST, lambda out: self._built.kr_nfc_reply(self._at, length, out)) or b""

    def leave(self) -> None:
        self._built.kr_nfc_leave(self._at)

    def begin(self, link: int) -> None:
        self._built.kr_nfc_begin(self._at, link)


class CWire:
    """The wire of a box in C."""

    def __init__(self, built: ctypes.CDLL, buffer: CBuffer) -> None:
        self._built, self._buffer = built, buffer
        built.kr_wire_next.restype = ctypes.c_size_t
        self.struct = Wire()
        self._at = ctypes.byref(self.struct)
        built.kr_wire_init(self._at, ctypes.byref(buffer.struct))

    def begin(self, link: int) -> None:
        self._built.kr_wire_begin(self._at, link)

    def receive(self, data: bytes, now: int) -> tuple[WireEvent, bytes]:
        """The next event, and the bytes after it."""
        received = given(data)
        event = WireEvent(self._built.kr_wire_receive(self._at, ctypes.byref(received), Uint(now)))
        return event, data[len(data) - received.len :]

    def reply(self, message: bytes) -> None:
        self._built.kr_wire_reply(self._at, self._buffer.put_reply(message))

    def next(self, size: int) -> bytes:
        return _written(size, lambda out: self._built.kr_wire_next(self._at, ctypes.c_size_t(size), out)) or b""

    def leave(self) -> None:
        self._built.kr_wire_leave(self._at)


class CReassembly:
    """The fragments that a phone receives."""

    def __init__(self, built: ctypes.CDLL) -> None:
        self._built = built
        self._state = Reassembly()
        self._data = (Byte * LONGEST)()

    def accept(self, fragment: bytes, now: int) -> tuple[int, tuple[int, bytes] | None]:
        """The number of an error or 0, and the command."""
        whole = Whole()
        error: int = self._built.kr_accept_fragment(
            ctypes.byref(self._state), Flag(True), given(fragment), Uint(now), self._data, ctypes.byref(whole)
        )
        return error, (whole.command, bytes(self._data[: whole.len])) if whole.command else None


def split_by_phone(built: ctypes.CDLL, message: bytes, size: int) -> Iterator[bytes]:
    """The fragments that a phone writes."""
    built.kr_split.restype = ctypes.c_size_t
    whole = given(message)
    for number in range(len(message) + 1):
        fragment = _written(size, lambda out, n=number: built.kr_split(whole, n, ctypes.c_size_t(size), out))
        if fragment is None:
            return
        yield fragment


def _written(size: int, write: Callable[[ctypes.Array[ctypes.c_char]], int]) -> bytes | None:
    """The output of a function, at most `size` bytes, or None."""
    out = ctypes.create_string_buffer(size + 1)
    out[size] = b"\xa5"
    length = write(out)
    assert length <= size
    assert out[size] == b"\xa5"
    return out.raw[:length] if length else None
