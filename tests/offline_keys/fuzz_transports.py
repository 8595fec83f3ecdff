"""Random calls to the transports in Python and in C.

`make test-transports-long` runs it, with the transports in C under sanitizers. Exchanges of the phone in C follow, then
the fuzzer in C alone. The first difference ends the run, and is shown with its call.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports import fragments, nfc, wire
from keyrack.offline_keys.transports.message_buffer import Phase
from tests.offline_keys import c_box, c_phone, c_sources
from tests.offline_keys.box_comparison import Differ
from tests.offline_keys.c_sources import BOX, PHONE, SANITIZED
from tests.offline_keys.c_transports import WireEvent
from tests.offline_keys.fuzz_boxes import LIBRARY
from tests.offline_keys.transports_comparison import Rivals

STEPS_PER_CONNECTION = 200  # in `several`
PAUSES = (*[0] * 30, *[1] * 10, 100, 499, 500, 501, 999, 1_000, 1_001, 2_500, 3_001, 5_000, 10_001, 15_000, 30_001)
SHORT_PAUSES = (*[0] * 40, *[1] * 8, 300, 900)
LENGTHS = (1, 2, 4, 17, 18, 92, 250, 254, 255, 256, 510, 600, 2_047, LONGEST)
SIZES = (20, 20, 21, 182, 244, 512)
ROOMS = (*[each for each in SIZES for _ in range(4)], 0, 2, 3, 4, 19)  # for a notification; some are too small
FOREIGN = (
    "",
    "83",
    "8300",
    "830000",
    "830801",
    "830001",
    "82000101",
    "bf000106",
    "810001c0",
    "00",
    "7fc0",
    "830001c0c1",
)
APDUS = tuple(
    bytes.fromhex(each)
    for each in (
        f"00a4040009{nfc.AID.hex()}00", f"00a4040c09{nfc.AID.hex()}", f"00a4040007{nfc.NDEF_AID.hex()}00",
        "00a4040002ffff00", "00a4000c02e103", "00a4000c02e104", "00a4000c02e105",
        "00b0000000", "00b000020f", "00b0010000", "00c0000000", "00c0000010",
        "801000000482018102", "80100000048201810200", "9010000001c0", "8010000000", "8011000000", "a010000001c0",
        "80100000000001c00000", "801000", "",
    )
)  # fmt: skip
BURSTS = (1, 1, 2, 5, 20, 60)  # calls of one kind, one after the other


class Host:
    """A host that makes random calls of a firmware and its phones."""

    def __init__(self, built: ctypes.CDLL, seed: int) -> None:
        self._random = Random(seed)
        self._rivals = Rivals(built)
        self._now = 0
        self._users: list[str] = [""] * LINKS  # the transport of each link
        self._fragments: dict[int, list[bytes]] = {}  # that phones are about to write
        self._commands: list[bytes] = []  # of the phone in the field
        self._frames = b""  # on the wire
        self._call: Callable[[], None] = self._connect
        self._left = 1  # calls of this kind
        self._focus = 0  # their link
        self.counts = Counter[str]()

    def step(self) -> None:
        self._now += self._random.choice(PAUSES if self._left == 0 or self._random.random() < 0.01 else SHORT_PAUSES)
        if self._left == 0:
            self._left, self._focus = self._random.choice(BURSTS), self._random.randrange(LINKS)
            self._call = self._random.choices(
                (self._connect, self._end, self._write, self._next, self._apdu, self._receive, self._send, self._tick),
                (10, 2, 30, 30, 20, 10, 20, 5),
            )[0]  # fmt: skip
            if self._call in (self._connect, self._end, self._tick):
                self._left = 1
        self._left -= 1
        self._call()
        if self._random.random() < 0.5:
            self._reply()

    def _link(self, user: str) -> int:
        """A link for this transport. Its former transport loses it."""
        if "" in self._users and self._random.random() < 0.95:
            link = self._users.index("")
        else:
            link = self._random.randrange(LINKS)
        self._leave(link)
        self._users[link] = user
        return link

    def _leave(self, link: int) -> None:
        match self._users[link]:
            case "bluetooth":
                self._rivals.bluetooth("disconnect", link)
                self._fragments.pop(link, None)
            case "nfc":
                self._rivals.nfc("leave")
            case "wire":
                self._rivals.wire("leave")
            case _:
                pass
        self._users[link] = ""

    def _end(self) -> None:
        self._leave(self._random.randrange(LINKS))

    def _connect(self) -> None:
        if self._random.random() < 0.8:
            self._rivals.bluetooth("connect", self._link("bluetooth"), self._now)
        elif "nfc" not in self._users:
            self._rivals.nfc("leave")
            self._rivals.enter(self._link("nfc"), self._random.choice((None, "https://a/", "https://" + "a" * 192)))

    def _write(self) -> None:
        link = self._focus
        if self._users[link] != "bluetooth" and self._random.random() < 0.1:
            self._connect()
        pending = self._fragments.setdefault(link, [])
        if not pending:
            pending += fragments.split(self._message(), self._random.choice(SIZES))
        fragment = pending.pop(0)
        if self._random.random() < 0.05:
            fragment = self._random.choice((bytes.fromhex(self._random.choice(FOREIGN)), self._flipped(fragment)))
        elif self._random.random() < 0.02:
            pending.clear()
        if self._rivals.bluetooth("write", link, fragment, self._now) is not None:
            self.counts["bluetooth message"] += 1

    def _next(self) -> None:
        link, size = self._random.choice((self._focus, self._rivals.buffer.owner)), self._random.choice(ROOMS)
        fragment = self._rivals.bluetooth("next_fragment", link, size, self._now)
        if fragment:
            self.counts[f"fragment {fragment[0]:02x} {fragment[3] if fragment[0] == 0xBF else ''}"] += 1
            if fragment[0] == 0xBF:
                self._fragments.pop(link, None)

    def _apdu(self) -> None:
        if not self._commands:
            message, most = self._message(), self._random.choice((1, 100, 255, 255, 255))
            if len(message) > 300:
                most = 255
            pieces = [message[at : at + most] for at in range(0, len(message), most)]
            self._commands = [bytes([0x90, 0x10, 0, 0, len(each)]) + each for each in pieces]
            self._commands[-1] = b"\x80" + self._commands[-1][1:] + b"\0"
            self._commands += [bytes.fromhex("00c0000000")] * self._random.choice((0, 1, 3))
        command = self._commands.pop(0)
        if "nfc" not in self._users and self._random.random() < 0.7:
            command = APDUS[0]
        elif self._random.random() < 0.1:
            command = self._random.choice((*APDUS, APDUS[0], self._flipped(command)))
        response = self._rivals.nfc("receive", command, self._now)
        if not response:
            assert self._rivals.nfc_message
            self.counts["nfc message"] += 1
        else:
            self.counts[f"status {response[-2:].hex() if response[-2] != 0x61 else '61xx'}"] += 1
        if self._rivals.is_restarted:
            for link, user in enumerate(self._users):
                if user == "nfc":
                    self._users[link] = ""
            self._rivals.nfc("begin", self._link("nfc"))

    def _receive(self) -> None:
        if not self._frames:
            frame = wire.frame(self._message())
            self._frames = self._random.choice((*[frame] * 8, b"\0\0" + frame, b"\0" + frame, self._flipped(frame)))
            if self._random.random() < 0.05:
                self._frames = self._noise()
        size = self._random.choice((1, 64, *[3_000] * 6))
        chunk, self._frames = self._frames[:size], self._frames[size:]
        event = WireEvent.NEW_LINK
        while event is not WireEvent.NOTHING:
            event, chunk = self._rivals.wire("receive", chunk, self._now)
            self.counts[f"wire {event.name}"] += 1
            if event is WireEvent.MESSAGE:
                assert self._rivals.wire_message
                if self._random.random() < 0.8:
                    self._reply()
            elif event is WireEvent.NEW_LINK:
                self._users = ["" if user == "wire" else user for user in self._users]
                self._rivals.wire("begin", self._link("wire"))

    def _noise(self) -> bytes:
        if self._random.random() < 0.5:
            return self._random.randbytes(self._random.choice((3, 300, 2_100))) + b"\0"
        return (b"\xff" * self._random.choice((255, 2_040, 2_061, 2_062, 2_300))) + b"\0"

    def _send(self) -> None:
        if self._rivals.wire("next", self._random.choice((1, 64, 3_000))):
            self.counts["wire reply"] += 1

    def _reply(self) -> None:
        buffer = self._rivals.buffer
        if buffer.phase is not Phase.PROCESSING:
            return
        message, user = self._message(), self._users[buffer.owner]
        if user == "wire":
            self._rivals.wire("reply", message)
        elif user == "nfc":
            response = self._rivals.nfc("reply", message)
            self.counts[f"reply {response[-2]:02x}"] += 1
        else:
            is_proven = self._random.random() < 0.5
            self._rivals.bluetooth("reply", buffer.owner, message, self._now, is_proven=is_proven)
        for _ in range(self._random.choice((0, 1, 3, 200, 200))):
            if buffer.phase is Phase.SENDING:
                self._take(user, buffer.owner)

    def _take(self, user: str, owner: int) -> None:
        """The next part of a reply."""
        if user == "wire":
            self._send()
        elif user == "nfc":
            self.counts["get response"] += self._rivals.nfc("receive", APDUS[8], self._now)[-2] in (0x61, 0x90)
        else:
            self._focus = owner
            self._next()

    def _tick(self) -> None:
        for link in self._rivals.bluetooth("tick", self._now):
            self.counts["ended"] += 1
            if self._random.random() < 0.8:
                self._leave(link)

    def _message(self) -> bytes:
        length = self._random.choice(LENGTHS) if self._random.random() < 0.4 else self._random.randrange(1, 60)
        kind = self._random.randrange(4)
        if kind == 0:
            return bytes(length)
        if kind == 1:
            return self._random.randbytes(length)
        return bytes(self._random.choice((0, 1, 2, 0xFF)) if self._random.random() < 0.01 else 7 for _ in range(length))

    def _flipped(self, data: bytes) -> bytes:
        if not data:
            return data
        place = self._random.randrange(min(len(data), self._random.choice((4, 3_000))))
        return data[:place] + bytes([data[place] ^ 1 << self._random.randrange(8)]) + data[place + 1 :]


def run(built: ctypes.CDLL, steps: int, seed: int) -> Counter[str]:
    """The calls in so many steps. Raises `Differ` with the step."""
    host = Host(built, seed)
    for number in range(steps):
        try:
            host.step()
        except Exception as error:
            raise Differ(f"seed {seed}, step {number}\n{error}") from error
    return host.counts


def main(library: str, count: str, seed: str) -> None:
    built, steps, counts = c_box.library(Path(library)), 5_000, Counter[str]()
    for number in range(int(count) // steps):
        counts.update(run(built, steps, int(seed) + number))
    print(f"{int(count):,} steps: {dict(sorted(counts.items()))}", flush=True)


def several(count: int, seed: int, inputs: int) -> bool:
    """Run all under sanitizers.

    Steps, exchanges of a phone, then inputs to the fuzzer."""
    with tempfile.TemporaryDirectory() as directory:
        build = Path(directory)
        library, phone = build / LIBRARY, build / "phone" / c_phone.LIBRARY
        BOX.make(build, str(library), flags=SANITIZED)
        PHONE.make(phone.parent, str(phone), flags=SANITIZED)
        for module, *arguments in (
            ("fuzz_transports", "one", library, count, seed),
            ("phone_exchanges", phone, 0, count // STEPS_PER_CONNECTION, seed),
        ):
            command = [sys.executable, "-m", f"tests.offline_keys.{module}", *map(str, arguments)]
            if subprocess.run(command, env=c_sources.with_sanitizer()).returncode:
                return False
        BOX.make(build, str(build / "fuzz_transports"))
        return not subprocess.run([build / "fuzz_transports", str(inputs), str(seed)]).returncode


if __name__ == "__main__":
    if sys.argv[1] == "one":
        main(*sys.argv[2:])
    else:
        sys.exit(not several(*(int(each) for each in sys.argv[1:])))
