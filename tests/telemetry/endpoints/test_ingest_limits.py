"""B1: limits of deliveries: compression, lines, line length, reported errors, and bytes in progress."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.support.people import Person, fetch, refused
from tests.support.servers import DEADLINE, RunningServer, eventually
from tests.telemetry.endpoints.test_ingest import Unit, ago, device_key, unit_of

NDJSON, JSON = "application/x-ndjson", "application/json"
TOO_MANY = "The body must have at most 20000 lines or array elements."
PACKED = {"Content-Encoding": "gzip"}


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def post(unit: Unit, content: Any, media_type: str = NDJSON, path: str = "telemetry", **headers: str) -> httpx.Response:
    headers = {"Device-Key": unit.key, "Content-Type": media_type} | headers
    return unit.person.client.post(f"/ingest/{path}", content=content, headers=headers)


@pytest.mark.parametrize("path", ["telemetry", "events"])
def test_a_gzip_bomb_is_rejected_during_decompression(unit: Unit, path: str) -> None:
    """B1: 7.8 kB of gzip that contain four million lines."""
    bomb = gzip.compress(b"1\n" * 3_900_000)
    assert len(bomb) < 7_900
    text = "The body decompresses to more than 100 times its size."
    refused(post(unit, bomb, path=path, **PACKED), 413, text)
    # a body that is allowed uncompressed may be compressed as far as possible
    answer = post(unit, gzip.compress(b" " * 999_999 + b"\n"), path=path, **PACKED)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)


@pytest.mark.parametrize("path", ["telemetry", "events"])
def test_the_lines_of_a_delivery_are_limited(unit: Unit, path: str) -> None:
    """B1: with one more line, nothing is stored."""
    good = json.dumps(unit.sample(5, rpm=5))
    samples = [good] + ["1"] * 20_000
    for body, media_type in (
        ("\n".join(samples), NDJSON), ("\n" * 20_000 + good, NDJSON), (f"[{','.join(samples)}]", JSON),
        (f"[{','.join(['{}'] * 20_001)}]", JSON),
    ):  # fmt: skip
        refused(post(unit, body, media_type, path), 413, TOO_MANY)
    assert unit.person.get(f"/cars/{unit.car}/telemetry").status_code == 404
    for body, media_type in (("\n".join(samples[:-1]) + "\n", NDJSON), (f" [{' , '.join(samples[:-1])} ]\n", JSON)):
        answer = post(unit, body, media_type, path).json()
        assert answer["accepted"] + answer["duplicates"] + answer["refusedCount"] == 20_000
    if path == "telemetry":
        assert unit.get("telemetry")["rpm"] == 5


def test_a_long_line_is_rejected_before_it_is_parsed(unit: Unit) -> None:
    """B1: a line can nest many lists."""
    long = b'{"dtc":[' + b"[]," * 30_000 + b"[]]}"
    answer = post(unit, long + b"\n" + json.dumps(unit.sample(5, rpm=5)).encode())
    reason = "The line is longer than 65536 bytes."
    assert answer.json() == {"accepted": 1, "duplicates": 0, "refused": [{"line": 1, "reason": reason}]}
    padding = b" " * 300_000  # makes the whole array long
    text = "The body is not valid JSON: element 2 of the array is not valid or exceeds 65536 bytes."
    refused(post(unit, b"[{}," + long + padding + b"]", JSON), 400, text)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("[{]", "element 1 of the array is not valid."),
        ("[{},,{}]", "element 2 of the array is not valid."),
        ("[{},]", "element 2 of the array is not valid."),
        ("[{} {}]", "the array does not end after element 1."),
        ("[{}", "the array does not end after element 1."),
        ("[]x", "the array does not end after element 0."),
        ("[" * 2_000, "element 1 of the array is not valid."),
    ],
)
@pytest.mark.parametrize("path", ["telemetry", "events"])
def test_an_invalid_array_is_rejected_as_a_whole(unit: Unit, path: str, body: str, reason: str) -> None:
    refused(post(unit, body, JSON, path), 400, f"The body is not valid JSON: {reason}")


def test_a_long_array_is_stored_like_a_short_one(unit: Unit) -> None:
    """It is parsed element by element: escapes, non-ASCII letters and numbers remain unchanged."""
    trouble = [{"key": "[", "value": "}"}]
    values = {"vin": 'ä€𝄞"\\\n', "currentLatitude": -1.5e-3, "currentLongitude": 1e1, "dtc": trouble}
    samples = [unit.sample(9, **values), *([7] * 2), *(unit.sample(1, vin="v" * 250) for _ in range(1_000))]
    for ensure_ascii in (True, False):
        body = json.dumps(samples, ensure_ascii=ensure_ascii).encode()
        assert len(body) > 262_144
        report = post(unit, body, JSON).json()
        assert [line["line"] for line in report["refused"]] == [2, 3]
    assert (report["accepted"], report["duplicates"]) == (0, 1_001)
    assert unit.get("telemetry?$select=dtc,currentLatitude") == {"dtc": trouble, "currentLatitude": -0.0015}


def test_at_most_a_thousand_rejected_lines_are_listed(unit: Unit) -> None:
    """B1: the report then has the total number, and is marked as truncated."""
    good = json.dumps(unit.sample(5, rpm=5))
    unknown = json.dumps(unit.sample(5) | {"serialNumber": "nobody"})
    for count, more in ((1_000, {}), (1_001, {"refusedCount": 1_001, "truncated": True})):
        lines = [unknown if n % 2 else "1" for n in range(count)]
        report = post(unit, "\n".join([*lines, good])).json()
        assert [line["line"] for line in report.pop("refused")] == list(range(1, 1_001))
        assert report.pop("accepted") + report.pop("duplicates") == 1
        assert report == more
    report = post(unit, "{}\n" * 5_000, path="events").json()
    assert (len(report["refused"]), report["refusedCount"], report["truncated"]) == (1_000, 5_000, True)


# Bytes in progress

SMALL = {"ingest_memory_bytes_per_key": 300_000, "ingest_memory_bytes": 500_000}
OF_KEY = (
    "Deliveries of this device key with more than 300000 bytes are being processed."
    " Wait for their responses, then send this one again."
)
OF_ALL = "Deliveries with more than 500000 bytes are being processed. Please send this one again."


@pytest.fixture(scope="module")
def small(dsn: str, settings: Settings) -> Iterator[str]:
    with RunningServer(settings.model_copy(update=SMALL), dsn, worker=False) as running:
        yield running.url + "/ingest/telemetry"


class Slow:
    """A delivery whose last byte is only sent on `end`."""

    def __init__(self, url: str, key: str, size: int) -> None:
        self._last = threading.Event()
        self.status = 0
        self._thread = threading.Thread(target=self._send, args=(url, key, size))
        self._thread.start()

    def _send(self, url: str, key: str, size: int) -> None:
        def content() -> Iterator[bytes]:
            yield b" " * (size - 1)
            self._last.wait(DEADLINE)
            yield b"\n"

        headers = {"Device-Key": key, "Content-Type": NDJSON}
        self.status = fetch("POST", url, content=content(), headers=headers).status_code

    def end(self) -> int:
        self._last.set()
        self._thread.join(DEADLINE)
        return self.status


def test_bytes_in_progress_are_limited_per_key_and_in_total(small: str, alice: Person, bob: Person) -> None:
    """B1: a delivery that does not fit beside the others gets 503; a delivery alone is always accepted."""
    first, second, third = device_key(alice), device_key(alice), device_key(bob)

    def send(key: str, size: int = 100_000) -> httpx.Response:
        headers = {"Device-Key": key, "Content-Type": NDJSON}
        return fetch("POST", small, content=b" " * size, headers=headers)

    assert send(first, 600_000).status_code == 200
    slow = Slow(small, first, 250_000)
    eventually(lambda: send(first).status_code == 503, "the first bytes")
    answer = send(first)
    refused(answer, 503, OF_KEY)
    assert answer.headers["retry-after"] == "1"
    assert send(second).status_code == 200
    other = Slow(small, third, 200_000)
    eventually(lambda: send(second).status_code == 503, "the bytes of another key")
    refused(send(second), 503, OF_ALL)
    assert (other.end(), slow.end()) == (200, 200)
    assert [send(key).status_code for key in (first, second, third)] == [200] * 3
    packed = fetch(
        "POST",
        small,
        content=gzip.compress(b" " * 400_000),
        headers={"Device-Key": first, "Content-Type": NDJSON, **PACKED},
    )
    assert packed.status_code == 200


def test_a_rejected_delivery_releases_its_bytes(small: str, alice: Person) -> None:
    key = device_key(alice)
    headers = {"Device-Key": key, "Content-Type": NDJSON}
    for _ in range(5):
        assert fetch("POST", small, content=b"\n" * 250_000, headers=headers).status_code == 413
        assert fetch("POST", small, content=b"x" * 250_000, headers=headers | PACKED).status_code == 400
    sample = {"serialNumber": "nobody", "carDataReadTime": ago(1)}
    assert fetch("POST", small, json=sample, headers=headers).status_code == 200
