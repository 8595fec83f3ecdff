"""Messages on a link: round trips, and refused input."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.cbor import GREATEST, CborError, decode, encode
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

COUNT, BIT, SIGNED = st.integers(0, GREATEST), st.integers(0, 1), st.binary(max_size=300)
NONCE, HASH = st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32)
NAME = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)
VERSIONS = st.sets(COUNT, min_size=1, max_size=8).map(sorted)
KID = st.sampled_from((b"", bytes(8)))
SAID = st.one_of(
    st.builds(link_messages.Hello, VERSIONS),
    st.builds(
        link_messages.Challenge, st.just(2), NAME, NONCE, COUNT, BIT, COUNT, COUNT, COUNT, COUNT, COUNT, HASH, KID
    ),
    st.builds(link_messages.CarryMessage, SIGNED),
    st.builds(link_messages.AcceptedMessage, BIT),
    st.builds(link_messages.Open, SIGNED, SIGNED),
    st.builds(link_messages.Result, st.sampled_from(BoxRefusalCode), SIGNED),
    st.builds(link_messages.Fetch, COUNT),
    st.builds(link_messages.EntriesMessage, COUNT, st.lists(SIGNED, max_size=4)),
    st.builds(link_messages.Enrol, NONCE),
    st.builds(link_messages.EnrolledMessage, SIGNED),
    st.builds(link_messages.Provision, SIGNED, SIGNED, SIGNED),
    st.builds(link_messages.VersionsMessage, VERSIONS),
)  # fmt: skip
KINDS = tuple(link_messages.SHAPES)


@given(SAID)
def test_a_written_message_is_read(said: link_messages.Said) -> None:
    data = link_messages.write(said)
    assert link_messages.read(data, *KINDS) == said
    assert type(link_messages.read(data, *KINDS)) is type(said)
    assert cbor2.loads(data)[0] == link_messages.SHAPES[type(said)][0]


@given(SAID)
def test_an_unexpected_message_is_refused(said: link_messages.Said) -> None:
    with pytest.raises(cose.MessageRefused) as refused:
        link_messages.read(link_messages.write(said), *(kind for kind in KINDS if kind is not type(said)))
    assert refused.value.code is BoxRefusalCode.STRUCTURE


def test_the_numbers_are_those_of_the_document() -> None:
    assert [number for number, _ in link_messages.SHAPES.values()] == list(range(1, 13))
    assert link_messages.write(link_messages.hello()) == bytes.fromhex("82018102")
    assert link_messages.write(link_messages.Result(BoxRefusalCode.REFUSED)) == bytes.fromhex("83060140")


def test_an_unknown_message_number_is_refused_as_unknown() -> None:
    """A newer phone can then send an older message. A known number in the wrong place is an error of structure."""
    for number in (0, 13, 99, GREATEST):
        with pytest.raises(cose.MessageRefused) as refused:
            link_messages.read(encode([number, b""]), *KINDS)
        assert refused.value.code is BoxRefusalCode.UNKNOWN
    for item in ([-1], [b"\1"], [], 1, {1: 2}):
        with pytest.raises(cose.MessageRefused) as refused:
            link_messages.read(encode(item), *KINDS)
        assert refused.value.code is BoxRefusalCode.STRUCTURE


def test_unknown_fields_of_a_challenge_are_skipped() -> None:
    said = link_messages.Challenge(2, "", bytes(16), 0, 0, 0, 0, 0, 1, 1, bytes(32), b"")
    number, members = decode(link_messages.write(said))
    for key in (128, 129, GREATEST):
        assert link_messages.read(encode([number, members | {key: [b"", {"a": 1}]}]), link_messages.Challenge) == said
    for key in (0, 13, 127, -1, "a"):
        with pytest.raises(cose.MessageRefused):
            link_messages.read(encode([number, members | {key: 0}]), link_messages.Challenge)


def test_a_message_has_a_maximum_size() -> None:
    fits = link_messages.write(link_messages.CarryMessage(bytes(link_messages.LONGEST - 5)))
    assert len(fits) == link_messages.LONGEST
    assert link_messages.read(fits, link_messages.CarryMessage)
    for data, code in (
        (fits + b"\0", BoxRefusalCode.TOO_LONG),
        (fits[:-1], BoxRefusalCode.ENCODING),
        (b"", BoxRefusalCode.ENCODING),
    ):
        with pytest.raises(cose.MessageRefused) as refused:
            link_messages.read(data, link_messages.CarryMessage)
        assert refused.value.code is code


@pytest.mark.parametrize(
    "said",
    [
        link_messages.Enrol(bytes(15)),
        link_messages.AcceptedMessage(2),
        link_messages.Fetch(-1),
        link_messages.EntriesMessage(1, [b""] * 5),
        link_messages.Hello([]),
        link_messages.Hello([2, 1]),
        link_messages.Hello(list(range(9))),
    ],
    ids=str,
)
def test_an_invalid_message_is_not_written(said: link_messages.Said) -> None:
    with pytest.raises(CborError):
        link_messages.write(said)


@given(st.binary(max_size=40))
def test_every_input_is_read_or_refused(data: bytes) -> None:
    try:
        assert link_messages.write(link_messages.read(data, *KINDS)) == data
    except cose.MessageRefused as refused:
        assert refused.code in (BoxRefusalCode.ENCODING, BoxRefusalCode.STRUCTURE, BoxRefusalCode.UNKNOWN)
