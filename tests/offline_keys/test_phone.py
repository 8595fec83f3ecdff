"""In charge of the reference phone: what it registers, brings, answers and takes home."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import cose, link_messages, p256, phone
from keyrack.offline_keys.link_messages import Challenge, EntriesMessage, Fetch
from keyrack.offline_keys.message_fields import ANSWER, REGISTRATION
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.authority import ISS, START, WEEK, Authority, Box
from tests.offline_keys.fixed_keys import public, signer


def test_a_registration_proves_that_the_phone_has_the_key() -> None:
    said = phone.registration("u-4711", public("phone-1"), bytes(16), signer("phone-1").sign)
    read = cose.read(said, REGISTRATION)
    assert read.claims == {"sub": "u-4711", "cnf": public("phone-1"), "nonce": bytes(16)}
    assert read.kid == public("phone-1").kid
    assert p256.verify(read.claims["cnf"], read.to_be_signed, read.signature)


def test_an_answer_is_to_one_challenge_with_one_key() -> None:
    box = Box()
    key, said = box.authority.key(), box.challenge()
    opened = phone.answer(said, key, 2, 42, signer("phone-1").sign)
    read = cose.read(opened.answer, ANSWER)
    assert opened.key == key
    assert read.claims == {
        "aud": said.name,
        "nonce": said.nonce,
        "command": 2,
        "counter": 42,
        "key": hashlib.sha256(key).digest(),
        "challenge": hashlib.sha256(link_messages.write(said)).digest(),
    }
    assert p256.verify(public("phone-1"), read.to_be_signed, read.signature)
    with pytest.raises(cose.MessageRefused):
        phone.answer(said, key[:-1], 1, 1, signer("phone-1").sign)


@given(st.integers(0, 1 << 52), st.integers(0, 1 << 50))
def test_a_counter_goes_up_whatever_the_clock_says(last: int, now: int) -> None:
    count = phone.counter(last, now)
    assert count > last
    assert count >= now


def test_what_the_box_has_is_not_brought() -> None:
    box = Box()
    told = [box.authority.key_set(), box.authority.list()]
    assert phone.brought(box.challenge(), ISS, told) == []
    assert phone.brought(box.challenge(), "customer:8", _newer(box)) == []


def test_what_is_newer_is_brought_in_an_order_in_which_the_box_takes_it() -> None:
    box = Box()
    box.open(box.authority.key())
    told = _newer(box)
    challenge = box.challenge()
    time = box.authority.time(challenge.nonce)
    said = phone.brought(challenge, ISS, [box.authority.time(bytes(16)), *told, time])
    receipt, *lists, key_set = told
    assert [each.artefact for each in said] == [key_set, time, *lists[::-1], receipt]
    assert [box.say(each).code for each in said] == [BoxRefusalCode.GOOD] * 6
    assert phone.brought(box.challenge(), ISS, told) == []


def test_a_box_that_has_slept_through_a_rotation_wakes_up() -> None:
    """Its clock stands weeks behind, and it knows none of the keys that sign now."""
    box = Box()
    box.stops(3 * WEEK)
    authority = box.authority
    authority.sequence, authority.keys, authority.issuing = 3, ["issuing-2", "issuing-3"], "issuing-3"
    challenge = box.challenge()
    told = [authority.list(), authority.time(challenge.nonce), authority.key_set()]
    assert [box.say(each).code for each in phone.brought(challenge, ISS, told)] == [BoxRefusalCode.GOOD] * 3
    assert box.open(authority.key()).code is BoxRefusalCode.GOOD


def test_an_older_list_may_come_beside_the_newest() -> None:
    """Of the generation before, a challenge says nothing: what is later than the newest list is brought."""
    box = Box()
    box.passes(1)
    assert box.carry(box.authority.list(2)) is BoxRefusalCode.GOOD
    early = box.authority.list(1)
    assert phone.brought(box.challenge(), ISS, [early]) == []
    box.passes(1)
    later = [box.authority.list(3), box.authority.list(1), box.authority.list(2)]
    assert [each.artefact for each in phone.brought(box.challenge(), ISS, later)] == [later[1], later[2], later[0]]


def test_what_is_for_another_box_is_not_brought() -> None:
    box = Box()
    box.passes(60)
    other = Authority(box.authority.now, "box:1042:1")
    challenge = box.challenge()
    artefacts = [other.list(), other.receipt(1, box.log[0]["digest"]), other.time(challenge.nonce)]
    assert phone.brought(challenge, ISS, artefacts) == []


@pytest.mark.parametrize("held", [0, 1, 3, 11])
def test_the_log_is_taken_home(held: int) -> None:
    box = Box()
    for _ in range(10):
        box.passes(1)
        box.open(box.authority.key())
    assert box.carry(box.authority.receipt(2, box.log[1]["digest"])) is BoxRefusalCode.GOOD
    got: list[bytes] = []
    challenge = box.challenge()
    last, following = max(held, challenge.first - 1), challenge.next
    while wanted := phone.fetch(following, last):
        fresh = link_messages.read(box.say(wanted).reply, EntriesMessage)
        got += fresh.entries
        last, following = last + len(fresh.entries), fresh.next
    assert got == list(box.state.kept.log.entries)[max(held - 2, 0) :]


def test_nothing_is_fetched_where_nothing_is() -> None:
    assert phone.fetch(1, 0) is None
    assert phone.fetch(5, 4) is None
    assert phone.fetch(5, 3) == Fetch(4)


def test_a_challenge_that_was_altered_opens_nothing() -> None:
    box = Box()
    key, said = box.authority.key(), box.challenge()
    for altered in (said._replace(time=START + 5), said._replace(certain=0), said._replace(next=9)):
        box.say(link_messages.Hello())
        answer = phone.answer(_nonce(altered, box), key, 1, 1, signer("phone-1").sign)
        assert box.say(answer).code is BoxRefusalCode.CHALLENGE


def _nonce(altered: Challenge, box: Box) -> Challenge:
    return altered._replace(nonce=box.state.running.links[0].nonce)


def _newer(box: Box) -> list[bytes]:
    """What a server tells after a while, in the order in which it does not have to come."""
    box.passes(60)
    authority = box.authority
    authority.sequence, authority.keys, authority.issuing = 2, ["issuing-1", "issuing-2"], "issuing-2"
    receipt = authority.receipt(1, box.log[0]["digest"])
    return [receipt, authority.list(3), authority.list(2), authority.list(1), authority.key_set()]
