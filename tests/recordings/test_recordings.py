"""The recorded requests are replayed, and every response must be equal, byte for byte.

`make test-recordings` runs it. `make record-requests` records an intended difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.recordings.comparison import compare
from tests.recordings.exchanges import Exchange, read, shorten, texts, write
from tests.recordings.messages import Signer, encode_cbor
from tests.recordings.record import record

LEAST = 5_000  # minimum number of exchanges
GOAL = "make test-recordings"


@pytest.mark.skipif("KEYRACK_RECORDINGS" not in os.environ, reason=f"several minutes: {GOAL}")
def test_replayed_responses_equal_the_recording() -> None:
    replayed = record()
    comparison = compare(read(), texts(replayed))
    assert len(replayed) >= LEAST
    assert comparison.is_equal, comparison.report


def test_the_recording_is_complete() -> None:
    recorded = read()
    assert len(recorded) >= LEAST
    assert all("\n< " in text for text in recorded.values())


def test_written_exchanges_can_be_read(tmp_path: Path) -> None:
    long = "ä\r\n" * 3_000
    exchanges = [Exchange("a.txt", "one", "> GET /\n< 200 OK\n", ""), Exchange("b.txt", "two", shorten(long), long)]
    write(exchanges, tmp_path)
    assert read(tmp_path) == texts(exchanges) == {"a.txt: one": "> GET /\n< 200 OK\n", "b.txt: two": shorten(long)}


def test_a_difference_is_reported() -> None:
    recorded = {"a.txt: one": "> GET /\n< 200 OK", "a.txt: two": "x"}
    replayed = {"a.txt: one": "> GET /\n< 404 Not Found", "a.txt: three": "x"}
    comparison = compare(recorded, replayed)
    assert (comparison.missing, comparison.new, comparison.different) == (
        ["a.txt: two"],
        ["a.txt: three"],
        ["a.txt: one"],
    )
    assert not comparison.is_equal
    assert "1 differ, 1 are missing, 1 are new." in comparison.report
    assert "-< 200 OK\n+< 404 Not Found" in comparison.report
    assert compare(recorded, recorded).is_equal


def test_messages_have_a_deterministic_encoding() -> None:
    assert encode_cbor({1: -7, 4: b"\x01", "a": [1_000, 24]}).hex() == "a301260441016161821903e81818"
    assert Signer(1).id == Signer(1).id != Signer(2).id
