"""Codings of a delivery: names of gzip, gzip files (RFC 1952), byte order marks, whole numbers."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from typing import Any

import pytest

from keyrack.core.text import BYTE_ORDER_MARK
from tests.support.people import Person, refused
from tests.telemetry.endpoints.test_ingest import ACCEPTED, Unit, unit_of

FHCRC, FEXTRA, FNAME, FCOMMENT = 2, 4, 8, 16
EMPTY = gzip.compress(b"", mtime=0)
NO_GZIP = "The body is not valid gzip."
PATHS = ("telemetry", "events")


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def member(content: bytes, flags: int) -> bytes:
    """A gzip member with these optional header fields (RFC 1952, section 2.3)."""
    header = b"\x1f\x8b\x08" + bytes([flags]) + struct.pack("<I", 1_700_000_000) + b"\x00\x03"
    header += struct.pack("<H", 6) + b"AB\x02\x00xy" if flags & FEXTRA else b""
    header += b"samples.ndjson\x00" if flags & FNAME else b""
    header += "f\u00fcr Keyrack\x00".encode("latin-1") if flags & FCOMMENT else b""
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF) if flags & FHCRC else b""
    body = zlib.compress(content)[2:-4]
    return header + body + struct.pack("<II", zlib.crc32(content), len(content))


def post(unit: Unit, content: bytes, coding: str = "gzip", path: str = "telemetry") -> Any:
    headers = {"Device-Key": unit.key, "Content-Type": "application/x-ndjson", "Content-Encoding": coding}
    return unit.person.client.post(f"/ingest/{path}", content=content, headers=headers)


def line(unit: Unit, minutes: float = 1, **values: Any) -> bytes:
    return json.dumps(unit.sample(minutes, **values)).encode() + b"\n"


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "GZip", "x-gzip", "X-GZIP", "identity, gzip", ", gzip ,"])
def test_every_name_of_gzip_is_accepted(unit: Unit, coding: str) -> None:
    assert post(unit, gzip.compress(line(unit)), coding).json() == ACCEPTED


@pytest.mark.parametrize("coding", ["identity", "IDENTITY", "identity, identity", ","])
def test_every_name_of_no_coding_is_accepted(unit: Unit, coding: str) -> None:
    assert post(unit, line(unit), coding).json() == ACCEPTED
    answer = unit.person.client.put(
        "/cars", json={"name": "Identity"}, headers=unit.person.headers | {"Content-Encoding": coding}
    )
    assert answer.status_code == 201


@pytest.mark.parametrize("coding", ["br", "deflate", "gzip, gzip", "gzip, br", "gzip2"])
def test_other_codings_are_refused(unit: Unit, coding: str) -> None:
    assert post(unit, gzip.compress(line(unit)), coding).status_code == 415


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
def test_bodies_of_other_endpoints_are_not_compressed(unit: Unit, coding: str) -> None:
    headers = unit.person.headers | {"Content-Encoding": coding, "Content-Type": "application/json"}
    answer = unit.person.client.put("/cars", content=gzip.compress(b'{"name": "Packed"}'), headers=headers)
    assert answer.status_code == 415


@pytest.mark.parametrize("flags", range(0, 32, 2))
def test_every_optional_field_of_a_header_is_skipped(unit: Unit, flags: int) -> None:
    assert post(unit, member(line(unit), flags)).json() == ACCEPTED


@pytest.mark.parametrize("path", PATHS)
def test_several_gzip_members_are_read(unit: Unit, path: str) -> None:
    lines = [line(unit, minutes, rpm=1) for minutes in (3, 2, 1)]
    whole = b"".join(lines)
    cut = len(whole) // 2  # within a line
    for body in (
        b"".join(member(text, FNAME) for text in lines),
        member(whole[:cut], FEXTRA) + member(whole[cut:], FHCRC),
        EMPTY + member(whole, 0) + EMPTY + EMPTY,
        b"".join(gzip.compress(bytes([byte])) for byte in whole),
    ):
        report = post(unit, body, path=path).json()
        told = report["accepted"] + report["duplicates"] + len(report["refused"])
        assert told == 3
        assert path == "events" or not report["refused"]


@pytest.mark.parametrize(
    "behind",
    [b"\x00", b"\x00" * 512, b"more", EMPTY[:-1], EMPTY[:3], b"\x1f\x8b"],
    ids=["a zero", "zeros", "text", "cut", "cut early", "magic"],
)
def test_other_bytes_after_a_gzip_member_are_rejected(unit: Unit, behind: bytes) -> None:
    """Not even zeros: RFC 1952, section 2.2, has no padding."""
    refused(post(unit, gzip.compress(line(unit)) + behind), 400, NO_GZIP)
    assert unit.person.get(f"/cars/{unit.car}/telemetry").status_code == 404


def test_a_damaged_gzip_member_is_rejected(unit: Unit) -> None:
    good = gzip.compress(line(unit))
    for at in (-1, -5, 0, 1, 2, len(good) // 2):
        damaged = bytearray(good)
        damaged[at] ^= 0xFF
        for body in (bytes(damaged), good + bytes(damaged)):
            refused(post(unit, body), 400, NO_GZIP)
    for body in (b"", good[:-1], good[:10]):
        refused(post(unit, body), 400, NO_GZIP)


@pytest.mark.parametrize("path", PATHS)
def test_limits_apply_to_all_gzip_members_together(unit: Unit, path: str) -> None:
    """Limits on the size, the ratio and the number of members.

    An empty member costs time without adding to the size.
    """
    half = gzip.compress(b" " * 499_999 + b"\n")
    assert post(unit, half * 2, path=path).status_code == 200, post(unit, half * 2, path=path).text
    refused(post(unit, half * 3, path=path), 413, "The body decompresses to more than 100 times its size.")
    loose = gzip.compress((b" " * 9_999 + b"\n") * 100, 0)  # as large as its content
    assert post(unit, loose * 7 + half, path=path).status_code == 200
    refused(post(unit, loose * 7 + half * 2, path=path), 413, "The body must be smaller than 8000000 bytes.")
    assert post(unit, EMPTY * 20_000, path=path).status_code == 200
    too_many = "The body must have at most 20000 lines or array elements."
    refused(post(unit, EMPTY * 20_001, path=path), 413, too_many)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("form", ["lines", "array"])
def test_a_byte_order_mark_is_skipped(unit: Unit, path: str, coding: str, form: str) -> None:
    text = line(unit, rpm=1).strip()
    body = BYTE_ORDER_MARK + (text if form == "lines" else b"[" + text + b"]")
    report = post(unit, gzip.compress(body) if coding == "gzip" else body, coding, path).json()
    if path == "telemetry":
        assert report == ACCEPTED
    else:  # the line is read; a sample is not an event
        assert ["not valid JSON" in rejection["reason"] for rejection in report["refused"]] == [False]


def test_a_byte_order_mark_elsewhere_is_an_error(unit: Unit) -> None:
    report = post(unit, line(unit, 2) + BYTE_ORDER_MARK + line(unit), "identity").json()
    assert (report["accepted"], [rejection["line"] for rejection in report["refused"]]) == (1, [2])


@pytest.mark.parametrize(
    ("text", "value"),
    [("2100", 2100), ("2100.0", 2100), ("2.1e3", 2100), ("21E+2", 2100), ("0.0", 0), ("-0.0", 0),
     ("30000.000", 30_000), ("2100.5", None), ("1e400", None), ("-1.0", None), ("30001.0", None), ("1e20", None),
     ('"2100"', None), ('"2100.0"', None), ("true", None)],
)  # fmt: skip
def test_a_whole_number_may_have_a_fraction_of_zero(unit: Unit, text: str, value: int | None) -> None:
    body = line(unit, rpm=12345).replace(b"12345", text.encode())
    report = post(unit, body, "identity").json()
    assert report["accepted"] == (value is not None)
    if value is None:
        assert report["refused"][0]["reason"].startswith("`rpm` must be ")
    else:
        rpm = unit.get("telemetry")["rpm"]
        assert (rpm, type(rpm)) == (value, int)
