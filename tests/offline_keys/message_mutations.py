"""Mutated messages: changed byte by byte, or as CBOR with corrected lengths."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG = range(7)
NUMBERS = tuple(
    sorted({
        edge + by
        for edge in (0, 24, 256, 1 << 16, 1 << 31, 1 << 32, 1 << 53, 1 << 63, 1 << 64, 33, 2048, 1_800_000_000)
        for by in (-1, 0, 1)
        if 0 <= edge + by < 1 << 64
    })
)  # fmt: skip
STEPS = (1, 2, 3, 10, 300, 301, 3600, 86_400, 518_400, 604_800, 604_801, 2_000_000)
STRANGERS = tuple(
    bytes.fromhex(each)
    for each in (
        "f4", "f5", "f6", "f7", "ff", "f0", "f818", "f93c00", "fa3f800000", "fb3ff0000000000000", "5f41004100ff",
        "9f00ff", "bf0000ff", "7f6161ff", "1c", "3d", "5e", "fc", "d8125840", "c100", "d83dd200", "80", "a0", "40",
        "60", "00", "20", "3a7fffffff", "3a80000000", "1b001fffffffffffff", "1b0020000000000000", "8181818181818100",
        "a1a000", "a1400000",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Around:
    """A byte string that contains other items: its level and its place."""

    level: bytes
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Site:
    """An item of a message."""

    around: tuple[Around, ...]
    level: bytes
    start: int
    content: int  # where the head ends
    end: int
    major: int
    argument: int
    children: tuple[tuple[int, int], ...]  # elements of an array, pairs of a map: start and end

    @property
    def raw(self) -> bytes:
        return self.level[self.start : self.end]

    def replaced(self, new: bytes) -> bytes:
        """The message with other bytes in this place."""
        data = self.level[: self.start] + new + self.level[self.end :]
        for outer in reversed(self.around):
            data = outer.level[: outer.start] + head(BYTES, len(data)) + data + outer.level[outer.end :]
        return data


def head(major: int, argument: int, size: int | None = None) -> bytes:
    """Type and argument, in the shortest form or in so many bytes."""
    if size is None:
        size = 0 if argument < 24 else next(n for n in (1, 2, 4, 8) if argument < 1 << 8 * n)
    if size == 0:
        return bytes([major << 5 | argument])
    return bytes([major << 5 | 23 + size.bit_length()]) + argument.to_bytes(size, "big")


def sites(message: bytes) -> tuple[Site, ...]:
    """All items of a message, also those in byte strings.

    None if the message is not well-formed.
    """
    found: list[Site] = []
    try:
        _walk(message, (), found)
    except (IndexError, struct.error, ValueError):
        return ()
    return tuple(found)


def _walk(level: bytes, around: tuple[Around, ...], found: list[Site]) -> None:
    if _item(level, 0, around, found, 0) != len(level):
        raise ValueError


def _item(level: bytes, start: int, around: tuple[Around, ...], found: list[Site], depth: int) -> int:
    major, info = level[start] >> 5, level[start] & 31
    if info > 27 or major > TAG or depth > 16:
        raise ValueError
    size = 0 if info < 24 else 1 << info - 24
    content = start + 1 + size
    argument = int.from_bytes(level[start + 1 : content], "big") if size else info
    place, end, children = len(found), content, []
    if major in (BYTES, TEXT):
        end = content + argument
        if end > len(level):
            raise ValueError
    elif major in (ARRAY, MAP, TAG):
        if argument > len(level) and major != TAG:
            raise ValueError
        for _ in range(1 if major == TAG else argument):
            begin = end
            for _ in range(2 if major == MAP else 1):
                end = _item(level, end, around, found, depth + 1)
            children.append((begin, end))
    found.insert(place, Site(around, level, start, content, end, major, argument, tuple(children)))
    if major == BYTES and argument > 1:
        inner: list[Site] = []
        try:
            _walk(level[content:end], (*around, Around(level, start, end)), inner)
        except (IndexError, ValueError):
            return end
        if len(inner) > 1:
            found.extend(inner)
    return end


class Mutants:
    """Endless mutants of these messages, always the same for a seed."""

    def __init__(self, messages: tuple[bytes, ...], seed: int) -> None:
        self._random = Random(seed)
        self._sites = {message: sites(message) for message in messages}
        self._donors = tuple({site.raw for found in self._sites.values() for site in found})
        self._edits: tuple[Callable[[Site], bytes], ...] = (
            self._other_head, self._other_value, self._other_value, self._other_value, self._other_members,
            self._other_members, self._wrapped, self._stranger, self._donor, self._donor,
        )  # fmt: skip
        self._claims = {
            message: tuple(site for site in found if site.major <= TEXT and len(site.around) > 1)
            for message, found in self._sites.items()
        }

    def of(self, message: bytes) -> bytes:
        """A mutant that differs in one place or in several."""
        random = self._random
        chance = random.random()
        found = self._sites[message]
        if chance < 0.02:
            return message
        if chance < 0.15 or not found:
            return self._bytewise(message)
        if chance < 0.5 and (claims := self._claims[message]):
            site = random.choice(claims)
            return _bound_again(message, found, site.replaced(self._other_value(site)))
        site = random.choice(found)
        mutant = site.replaced(random.choice(self._edits)(site))
        if chance > 0.95 and (again := sites(mutant)):
            site = random.choice(again)
            mutant = site.replaced(random.choice(self._edits)(site))
        return _bound_again(message, found, mutant) if chance < 0.7 else mutant

    def _bytewise(self, message: bytes) -> bytes:
        random, data = self._random, bytearray(message)
        at = random.randrange(len(data) + 1)
        to = min(len(data), at + random.choice((1, 1, 2, 4, 8, 32)))
        match random.randrange(6):
            case 0:
                del data[at:]
            case 1:
                del data[at:to]
            case 2:
                data[at:at] = data[at:to]
            case 3:
                data[at:at] = random.randbytes(random.choice((1, 1, 2, 8, 700)))
            case 4:
                data[at:to] = random.randbytes(to - at)
            case _:
                for _ in range(random.choice((1, 1, 1, 2, 4))):
                    if data:
                        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        return bytes(data)

    def _other_head(self, site: Site) -> bytes:
        random, rest = self._random, site.level[site.content : site.end]
        major, argument = site.major, site.argument
        match random.randrange(4):
            case 0:
                sizes = [size for size in (1, 2, 4, 8) if argument < 1 << 8 * size]
                return head(major, argument, random.choice(sizes)) + rest
            case 1:
                return bytes([major << 5 | random.choice((28, 29, 30, 31))]) + rest
            case 2:
                return head(major, min(max(0, argument + random.choice((-1, 1, 2))), (1 << 64) - 1)) + rest
            case _:
                return head(random.randrange(8), argument) + rest

    def _other_value(self, site: Site) -> bytes:
        random, content = self._random, site.level[site.content : site.end]
        if site.major in (UNSIGNED, NEGATIVE):
            chance = random.random()
            if chance < 0.5:
                number = site.argument + random.choice(STEPS) * random.choice((-1, 1))
            else:
                number = random.choice(NUMBERS)
            major = site.major if chance < 0.9 else 1 - site.major
            return head(major, max(0, min(number, (1 << 64) - 1)))
        if site.major in (BYTES, TEXT):
            match random.randrange(5):
                case 0:
                    content = content[: random.randrange(len(content) + 1)]
                case 1:
                    content += random.randbytes(random.choice((1, 1, 8, 100)))
                case 2:
                    content += content[: random.choice((1, 1, 8, 100))]
                case 3 if content:
                    at = random.randrange(len(content))
                    content = (
                        content[:at]
                        + bytes([random.choice((0, 0x1F, 0x20, 0x7E, 0x7F, 0x80, 0xFF))])
                        + content[at + 1 :]
                    )
                case _ if content:
                    at = random.randrange(len(content))
                    content = content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]
            return head(site.major, len(content)) + content
        return self._other_members(site)

    def _other_members(self, site: Site) -> bytes:
        random = self._random
        members = [site.level[begin:end] for begin, end in site.children]
        if site.major == TAG or not members:
            return self._stranger(site)
        at = random.randrange(len(members))
        match random.randrange(5):
            case 0:
                del members[at]
            case 1:
                members.insert(at, members[at])
            case 2:
                other = random.randrange(len(members))
                members[at], members[other] = members[other], members[at]
            case 3:
                members.insert(at, random.choice(self._donors))
            case _:
                begin, end = random.choice(site.children)
                members[at] = site.level[begin:end]
        count = len(members) if random.random() < 0.9 else site.argument
        return head(site.major, count) + b"".join(members)

    def _wrapped(self, site: Site) -> bytes:
        around = self._random.choice((b"\xd2", b"\xd1", b"\xd8\x3d", b"\x81", b"\x81\x81", b"\xa1\x00", b"\x81" * 5))
        return around + site.raw

    def _stranger(self, site: Site) -> bytes:
        return self._random.choice(STRANGERS)

    def _donor(self, site: Site) -> bytes:
        """A part of another message, or of another place in this one."""
        return self._random.choice(self._donors)


def _bound_again(message: bytes, found: tuple[Site, ...], mutant: bytes) -> bytes:
    """Put the hash of the changed key into its answer.

    The mutant then passes more checks.
    """
    if message[:2] != b"\x83\x05":
        return mutant
    was = next(site.level[site.content : site.end] for site in found[2:] if site.major == BYTES)
    now = next((_contents(mutant)), None)
    if now is None or now == was:
        return mutant
    return mutant.replace(hashlib.sha256(was).digest(), hashlib.sha256(now).digest())


def _contents(message: bytes) -> Iterator[bytes]:
    """The first byte string of a message, if it has one."""
    if message[:2] == b"\x83\x05" and len(message) > 5 and message[2] == 0x59:
        length = int.from_bytes(message[3:5], "big")
        yield message[5 : 5 + length]
