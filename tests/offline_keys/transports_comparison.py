"""A comparison of the transports in Python and C, call by call."""

from __future__ import annotations

import ctypes
from typing import Any

from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.transports import wire
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth
from keyrack.offline_keys.transports.message_buffer import MessageBuffer, Phase
from keyrack.offline_keys.transports.nfc import NO_LINK, NfcCard
from tests.offline_keys import c_transports
from tests.offline_keys.box_comparison import Differ
from tests.offline_keys.c_transports import CBluetooth, CBuffer, CNfcCard, CWire, WireEvent

URL = "https://keyrack.example.com/drive/#box=K-HW844A"
PHASES = list(Phase)
FULL = 255  # the first byte of a block after which no zero was removed
WHOLE = wire.LONGEST + 4  # bytes of the longest message and its checksum


class PythonWire:
    """The wire of a box, from the frames and the buffer in Python."""

    def __init__(self, buffer: MessageBuffer) -> None:
        self._buffer = buffer
        self.link = NO_LINK
        self._deframer = wire.Deframer()
        self._frame = b""  # what is to be sent of the reply
        self.message = b""
        self.is_begun = self.is_in_buffer = False  # a frame
        self._end_frame()

    def begin(self, link: int) -> None:
        self.link = link

    def leave(self) -> None:
        self._buffer.leave(self.link)
        self.link = NO_LINK

    def receive(self, data: bytes, now: int) -> tuple[WireEvent, bytes]:
        """The next event, and the bytes after it."""
        self.is_in_buffer = self.is_in_buffer and self._buffer.is_of(self.link, Phase.RECEIVING)
        for place, byte in enumerate(data, 1):
            event = self._receive(byte, now)
            if event is not WireEvent.NOTHING:
                return event, data[place:]
        return WireEvent.NOTHING, b""

    def reply(self, message: bytes) -> None:
        if self._buffer.reply(self.link, message):
            self._frame = wire.frame(message)

    def next(self, size: int) -> bytes:
        if not self._buffer.is_of(self.link, Phase.SENDING):
            return b""
        part, self._frame = self._frame[:size], self._frame[size:]
        if not self._frame:
            self._buffer.abandon(self.link)
        return part

    def _receive(self, byte: int, now: int) -> WireEvent:
        messages = self._deframer.feed(bytes([byte]))
        if byte:
            self._take(byte, now)
            return WireEvent.NOTHING
        is_empty, is_in_buffer = not self.is_begun, self.is_in_buffer
        self._end_frame()
        if is_in_buffer and messages:
            [self.message] = messages
            self._buffer.complete()
            return WireEvent.MESSAGE
        if is_in_buffer or is_empty:
            self._buffer.abandon(self.link)
        return WireEvent.NEW_LINK if is_empty else WireEvent.NOTHING

    def _take(self, byte: int, now: int) -> None:
        if not self.is_begun:
            self.is_begun = True
            self.is_in_buffer = self.link != NO_LINK and self._buffer.claim(self.link, now)
            if self.is_in_buffer:
                self._buffer.begin(self.link, now)
        if not self._left:
            self._length += self._block not in (0, FULL)
            self._block, self._left = byte, byte - 1
        else:
            self._length, self._left = self._length + 1, self._left - 1
        if self.is_in_buffer and self._length > WHOLE:
            self.is_in_buffer = False
            self._buffer.abandon(self.link)

    def _end_frame(self) -> None:
        self.is_begun = self.is_in_buffer = False
        self._length = self._block = self._left = 0  # decoded bytes, and the block that comes


class Rivals:
    """One buffer with three transports, twice."""

    def __init__(self, built: ctypes.CDLL) -> None:
        self._built = built
        self.buffer, self._c_buffer = MessageBuffer(), CBuffer(built)
        self._bluetooth = BoxBluetooth(self.buffer), CBluetooth(built, self._c_buffer)
        self._wire = PythonWire(self.buffer), CWire(built, self._c_buffer)
        self.enter(0)

    def enter(self, link: int, url: str | None = URL) -> None:
        """A phone came into the field."""
        self._nfc = NfcCard(self.buffer, link, url), CNfcCard(self._built, self._c_buffer, link, url)

    def bluetooth(self, call: str, *given: Any, **named: Any) -> Any:
        return self._both(self._bluetooth, call, *given, **named)

    def nfc(self, call: str, *given: Any) -> Any:
        return self._both(self._nfc, call, *given)

    def wire(self, call: str, *given: Any) -> Any:
        return self._both(self._wire, call, *given)

    @property
    def nfc_message(self) -> bytes:
        return self._same("message", self._nfc[0].message, self._nfc[1].message)

    @property
    def wire_message(self) -> bytes:
        return self._same("message", self._wire[0].message, self._c_buffer.message)

    @property
    def is_restarted(self) -> bool:
        return self._same("restarted", self._nfc[0].is_restarted, self._nfc[1].is_restarted)

    def _both(self, pair: tuple[Any, Any], call: str, *given: Any, **named: Any) -> Any:
        result = self._same(call, *(getattr(each, call)(*given, **named) for each in pair))
        self._same(f"the state after {call}", self._python_state(), self._c_state())
        self._same("room", *(each.has_room for each in self._bluetooth))
        return result

    def _same(self, what: str, ours: Any, theirs: Any) -> Any:
        if ours != theirs:
            raise Differ(f"{what}: Python {ours}, C {theirs}")
        return ours

    def _python_state(self) -> dict[str, Any]:
        buffer, bluetooth, nfc, tool = self.buffer, self._bluetooth[0], self._nfc[0], self._wire[0]
        is_sending = buffer.phase is Phase.SENDING
        return {
            "buffer": (
                buffer.owner, buffer.phase, buffer._began, buffer._is_abandoned, list(buffer._waiting.items()),
                buffer._contested_at if is_sending else None,
            ),
            "sequence": bluetooth._sequence if is_sending and bluetooth._links[buffer.owner] else None,
            "times": (bluetooth._busy_since, bluetooth._reply_until),
            "links": [
                link
                and (
                    link.connected_at, link.drop_at, link.has_proven, link.failure or 0, link.reassembly._command or 0,
                    link.reassembly._length, link.reassembly._sequence, link.reassembly._began, link.reassembly._last,
                    bytes(link.reassembly._data) if buffer.is_of(number, Phase.RECEIVING) else b"",
                )
                for number, link in enumerate(bluetooth._links)
            ],
            "nfc": (nfc._link % (LINKS + 1), nfc._selected, getattr(nfc, "_expected", 0), len(nfc._message)),
            "wire": (tool.link % (LINKS + 1), tool.is_begun, tool.is_in_buffer),
        }  # fmt: skip

    def _c_state(self) -> dict[str, Any]:
        buffer, ble, nfc = self._c_buffer.struct, self._bluetooth[1].struct, self._nfc[1].struct
        phase, tool = PHASES[buffer.phase], self._wire[1].struct
        is_receiving = phase is Phase.RECEIVING
        return {
            "buffer": (
                buffer.owner, phase, buffer.began, buffer.abandoned,
                [(each.link, each.until) for each in buffer.waiting[: buffer.waiting_count]],
                buffer.contested_at if phase is Phase.SENDING and buffer.contested else None,
            ),
            "sequence": ble.sent - 1 if phase is Phase.SENDING and ble.links[buffer.owner].connected else None,
            "times": (ble.busy_since, ble.reply_until),
            "links": [
                (
                    link.connected_at, link.drop_at, link.has_proven, link.failure, link.reassembly.command,
                    link.reassembly.length, link.reassembly.sequence, link.reassembly.began, link.reassembly.last,
                    bytes(buffer.message[: link.reassembly.len]) if is_receiving and buffer.owner == number else b"",
                )
                if link.connected
                else None
                for number, link in enumerate(ble.links)
            ],
            "nfc": (nfc.link, nfc.selected, nfc.expected, nfc.len),
            "wire": (tool.link, tool.state != 0, tool.state == 1),
        }  # fmt: skip


assert c_transports.NO_LINK == LINKS
