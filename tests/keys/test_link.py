"""In charge of what is said on a link: what is written is read, by who expects it."""

from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.keys import cose, link
from keyrack.keys.cbor import GREATEST, Malformed
from keyrack.keys.codes import Code

COUNT, BIT, SIGNED = st.integers(0, GREATEST), st.integers(0, 1), st.binary(max_size=300)
NONCE, HASH = st.binary(min_size=16, max_size=16), st.binary(min_size=32, max_size=32)
NAME = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)
SAID = st.one_of(
    st.just(link.Hello()),
    st.builds(
        link.Challenge, st.just(1), NAME, NONCE, COUNT, BIT, COUNT, COUNT, COUNT, COUNT, COUNT, HASH
    ),
    st.builds(link.Carry, SIGNED),
    st.builds(link.Taken, BIT),
    st.builds(link.Open, SIGNED, SIGNED),
    st.builds(link.Result, st.sampled_from(Code), SIGNED),
    st.builds(link.Fetch, COUNT),
    st.builds(link.Entries, COUNT, st.lists(SIGNED, max_size=4)),
    st.builds(link.Enrol, NONCE),
    st.builds(link.Enrolled, SIGNED),
    st.builds(link.Provision, SIGNED, SIGNED, SIGNED),
)  # fmt: skip
KINDS = tuple(link.SHAPES)


@given(SAID)
def test_what_is_said_is_heard(said: link.Said) -> None:
    data = link.write(said)
    assert link.read(data, *KINDS) == said
    assert type(link.read(data, *KINDS)) is type(said)
    assert cbor2.loads(data)[0] == link.SHAPES[type(said)][0]


@given(SAID)
def test_what_is_not_expected_is_not_heard(said: link.Said) -> None:
    with pytest.raises(cose.Refused) as refused:
        link.read(link.write(said), *(kind for kind in KINDS if kind is not type(said)))
    assert refused.value.code is Code.STRUCTURE


def test_the_numbers_are_those_of_the_document() -> None:
    assert [number for number, _ in link.SHAPES.values()] == list(range(1, 12))
    assert link.write(link.Hello()) == bytes.fromhex("820101")
    assert link.write(link.Result(Code.REFUSED)) == bytes.fromhex("83060140")


def test_a_message_has_its_bound() -> None:
    fits = link.write(link.Carry(bytes(link.LONGEST - 5)))
    assert len(fits) == link.LONGEST
    assert link.read(fits, link.Carry)
    for data, code in ((fits + b"\0", Code.TOO_LONG), (fits[:-1], Code.ENCODING), (b"", Code.ENCODING)):
        with pytest.raises(cose.Refused) as refused:
            link.read(data, link.Carry)
        assert refused.value.code is code


@pytest.mark.parametrize(
    "said", [link.Enrol(bytes(15)), link.Taken(2), link.Fetch(-1), link.Entries(1, [b""] * 5), link.Hello(2)], ids=str
)
def test_what_cannot_be_said_is_not_written(said: link.Said) -> None:
    with pytest.raises(Malformed):
        link.write(said)


@given(st.binary(max_size=40))
def test_whatever_comes_is_heard_or_refused(data: bytes) -> None:
    try:
        assert link.write(link.read(data, *KINDS)) == data
    except cose.Refused as refused:
        assert refused.code in (Code.ENCODING, Code.STRUCTURE)
