"""The bytes of a record: equal for equal changes, whatever PostgreSQL returns, else different."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from hypothesis import given
from hypothesis import settings as at_most
from hypothesis import strategies as st

from keyrack.changelog.record_format import FIRST, NotARecord, Record, canonical, decode, digest, encode, hash_of, loads

SALT = bytes(range(32))
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
MOMENT = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-7))]))
HASH = st.binary(min_size=32, max_size=32)
RECORDS = st.builds(
    Record, LONG, st.uuids(), LONG, MOMENT, MOMENT, TEXT, TEXT, TEXT, st.lists(LONG), HASH,
    *[st.none() | HASH] * 3,
)  # fmt: skip
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.decimals("-1e9", "1e9", places=9)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=6),
    max_leaves=12,
)

ONE = Record(
    customer=3, epoch=UUID(int=1), number=1, at=datetime(2026, 11, 23, 14, 5, 6, 7, UTC),
    recorded_at=datetime(2026, 11, 23, 14, 5, 6, 90_000, UTC), kind="car.updated", resource="car", resource_id="17",
    groups=[4, 9], previous=FIRST, who=b"w" * 32, content=b"c" * 32, person=None,
)  # fmt: skip


@given(record=RECORDS)
def test_an_encoded_record_decodes_to_itself(record: Record) -> None:
    assert decode(encode(record)) == record


def test_the_bytes_follow_the_page() -> None:
    """docs/log-format.md, built by hand."""
    said = [
        (3).to_bytes(8, "big"), bytes(15) + b"\x01", (1).to_bytes(8, "big"),
        (1795442706_000007).to_bytes(8, "big"), (1795442706_090000).to_bytes(8, "big"),
        b"car.updated", b"car", b"17", (4).to_bytes(8, "big") + (9).to_bytes(8, "big"),
        bytes(32), b"w" * 32, b"c" * 32, b"",
    ]  # fmt: skip
    assert encode(ONE) == b"\x01" + b"".join(len(one).to_bytes(4, "big") + one for one in said)
    assert hash_of(encode(ONE)) == hashlib.sha256(encode(ONE)).digest()


@given(one=RECORDS, other=RECORDS, data=st.data())
def test_another_record_has_other_bytes(one: Record, other: Record, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([field.name for field in fields(Record)]))
    changed = replace(one, **{name: getattr(other, name)})
    assert (encode(changed) == encode(one)) == (changed == one)


def test_shifted_member_boundaries_change_the_bytes() -> None:
    assert encode(replace(ONE, kind="car", resource=".car")) != encode(replace(ONE, kind="car.", resource="car"))
    assert encode(replace(ONE, content=None, person=b"c" * 32)) != encode(ONE)


@given(record=RECORDS, data=st.data())
def test_truncated_or_extended_bytes_are_rejected(record: Record, data: st.DataObject) -> None:
    whole = encode(record)
    cut = data.draw(st.integers(0, len(whole) - 1))
    for wrong in (whole[:cut], whole + b"\0", whole + bytes(4), b"\x02" + whole[1:], whole[1:]):
        with pytest.raises(NotARecord):
            decode(wrong)


@pytest.mark.parametrize("wrong", [{"number": 2**63}, {"groups": [-(2**63) - 1]}, {"at": datetime(2026, 1, 1)}])  # noqa: DTZ001 - a time without a zone is the case
def test_invalid_values_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"beyond 64 bits|has no time zone"):
        encode(replace(ONE, **wrong))


def test_a_hash_of_another_length_is_no_record() -> None:
    for wrong in ({"previous": b""}, {"previous": b"1"}, {"who": b"w" * 31}, {"person": b"p" * 33}):
        with pytest.raises(NotARecord, match="32 bytes"):
            decode(encode(replace(ONE, **wrong)))


# The digests of parts


def test_a_digest_is_as_the_page_says() -> None:
    text = b'{"after":{"name":"Kombi"},"before":null}'
    padded = len(text).to_bytes(4, "big") + text + bytes(256 - 4 - len(text))
    said = hashlib.sha256(b"keyrack-change/v1/content\n" + SALT + padded).digest()
    assert digest("content", SALT, {"before": None, "after": {"name": "Kombi"}}) == said


def test_a_digest_is_of_its_part_its_salt_and_its_value() -> None:
    digests = [
        digest(part, salt, value)
        for part in ("who", "content", "person")
        for salt in (SALT, bytes(32))
        for value in (None, {}, [], "", {"a": None}, {"a": ""}, {"a": 0}, "x" * 255, "x" * 256)
    ]
    assert len(set(digests)) == len(digests) == 54


# The canonical text of a value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (1, "1"), (False, "false"), (0, "0"), ([], "[]"), ({}, "{}"),
        (1.0, "1"), (-0.0, "0"), (Decimal("-0.00"), "0"), (Decimal("1.10"), "1.1"), (1e22, "1" + 22 * "0"),
        (1e-7, "0.0000001"), (Decimal("1E+3"), "1000"), (100, "100"), (2**70, str(2**70)), (-2.5, "-2.5"),
        (5e-324, "0." + 323 * "0" + "5"),
        ({"b": 1, "a": [1, {"z": None, "Z": ""}]}, '{"a":[1,{"Z":"","z":null}],"b":1}'),
        ({"\U0001f511": 1, "\uffff": 2}, '{"\uffff":2,"\U0001f511":1}'),  # by code points, not by UTF-16
        ('é"\\/\n\x1f\x7f\u2028', '"é\\"\\\\/\\n\\u001f\x7f\u2028"'),
    ],
)  # fmt: skip
def test_a_value_has_one_text(value: Any, text: str) -> None:
    assert canonical(value).decode() == text
    assert canonical(loads(text)).decode() == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("1e150001"), Decimal("1e-999999"), "\ud800"])
def test_values_outside_jsonb_are_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match=r"jsonb|surrogates"):
        canonical(value)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999999999999", "9" * 200_000])
def test_a_huge_number_takes_no_memory(text: str) -> None:
    with pytest.raises(ValueError, match="jsonb"):
        canonical(loads(text))


@pytest.fixture(scope="module")
def jsonb(database_server: str) -> Iterator[Any]:
    """The text that PostgreSQL returns for a text that it stored as jsonb."""
    with asyncio.Runner() as runner:
        raw = runner.run(asyncpg.connect(database_server))
        yield lambda text: runner.run(raw.fetchval("select $1::text::jsonb::text", text))
        runner.run(raw.close())


@at_most(max_examples=150)
@given(value=VALUES)
def test_a_round_trip_through_jsonb_keeps_the_bytes(value: Any, jsonb: Any) -> None:
    """As a worker stores what it digested, and as a verifier reads it: with all digits, or as doubles."""
    text = json.dumps(value, default=float)
    bytes_ = canonical(json.loads(text))
    assert canonical(loads(text)) == bytes_
    assert canonical(loads(jsonb(text))) == bytes_
    assert canonical(json.loads(jsonb(text))) == bytes_


@at_most(max_examples=150)
@given(value=st.dictionaries(TEXT, st.decimals("-1e30", "1e30", allow_nan=False), max_size=5))
def test_numbers_of_more_digits_than_a_double_keep_them(value: dict[str, Decimal], jsonb: Any) -> None:
    text = "{" + ",".join(f"{json.dumps(name)}:{number}" for name, number in value.items()) + "}"
    assert canonical(loads(jsonb(text))) == canonical(value)
