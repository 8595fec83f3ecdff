"""The reference phone: registration, artefacts, answers and logs."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import cose, link_messages, p256, phone
from keyrack.offline_keys.cbor import decode, encode
from keyrack.offline_keys.link_messages import Challenge, EntriesMessage, Fetch
from keyrack.offline_keys.message_fields import ANSWER, ENTRY, REGISTRATION
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.authority import ISS, START, WEEK, Authority, Box
from tests.offline_keys.fixed_keys import public, signer, with_high_s


def test_a_registration_proves_that_the_phone_has_the_key() -> None:
    nonce = bytes(range(16))
    said = phone.registration("u-4711", public("phone-1"), nonce, signer("phone-1").sign)
    read = cose.read(said, REGISTRATION)
    assert read.claims == {"sub": "u-4711", "cnf": public("phone-1"), "nonce": nonce}
    assert read.kid == public("phone-1").kid
    assert p256.verify(read.claims["cnf"], read.to_be_signed, read.signature)


def test_an_answer_is_to_one_challenge_with_one_key() -> None:
    box = Box()
    key, message = box.authority.key(), box.hello()
    said = link_messages.read(message, Challenge)
    opened = phone.answer(message, key, 2, 42, signer("phone-1").sign)
    read = cose.read(opened.answer, ANSWER)
    assert opened.key == key
    assert read.claims == {
        "aud": said.name,
        "nonce": said.nonce,
        "command": 2,
        "counter": 42,
        "key": hashlib.sha256(key).digest(),
        "challenge": hashlib.sha256(message).digest(),
    }
    assert p256.verify(public("phone-1"), read.to_be_signed, read.signature)
    with pytest.raises(cose.MessageRefused):
        phone.answer(message, key[:-1], 1, 1, signer("phone-1").sign)
    with pytest.raises(cose.MessageRefused):
        phone.answer(message[:-1], key, 1, 1, signer("phone-1").sign)


def test_the_answer_names_the_challenge_as_received() -> None:
    """The phone skips unknown fields, but the box hashes all that it has sent."""
    number, members = decode(Box().hello())
    message = encode([number, members | {128: "of a later version"}])
    opened = phone.answer(message, Authority().key(), 1, 1, signer("phone-1").sign)
    assert cose.read(opened.answer, ANSWER).claims["challenge"] == hashlib.sha256(message).digest()


def test_an_entry_is_stored_with_a_low_s() -> None:
    box = Box()
    key = box.authority.key()
    assert box.open(key).code is BoxRefusalCode.GOOD
    for entry in box.state.kept.log.entries:
        assert phone.kept(entry) == phone.kept(with_high_s(entry)) == entry != with_high_s(entry)
    with pytest.raises(cose.MessageRefused):
        phone.kept(key)


def test_an_entry_that_gives_up_later_numbers_is_not_stored() -> None:
    claims = cose.read(Box().state.kept.log.entries[0], ENTRY).claims
    for first, is_kept in ((1, True), (2, False)):
        entry = cose.sign(ENTRY, bytes(8), claims | {"number": 1, "first": first}, signer("box").sign)
        if is_kept:
            assert cose.read(phone.kept(entry), ENTRY).claims["first"] == first
            continue
        with pytest.raises(cose.MessageRefused) as refused:
            phone.kept(entry)
        assert refused.value.code is BoxRefusalCode.CLAIMS


@given(st.integers(0, 1 << 52), st.integers(0, 1 << 50))
def test_the_counter_grows_with_any_clock(last: int, now: int) -> None:
    count = phone.counter(last, now)
    assert count > last
    assert count >= now


def test_artefacts_that_the_box_has_are_not_sent() -> None:
    box = Box()
    told = [box.authority.key_set(), box.authority.list()]
    assert phone.brought(box.challenge(), ISS, told) == []
    assert phone.brought(box.challenge(), "customer:8", _newer(box)) == []


def test_newer_artefacts_are_sent_in_an_order_that_the_box_accepts() -> None:
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


def test_a_box_that_missed_a_rotation_catches_up() -> None:
    """Its clock is weeks behind, and it knows none of the present signing keys."""
    box = Box()
    box.stops(3 * WEEK)
    authority = box.authority
    authority.rotate(2)
    authority.rotate(3)
    challenge = box.challenge()
    told = [authority.list(), authority.time(challenge.nonce), authority.key_set()]
    assert [box.say(each).code for each in phone.brought(challenge, ISS, told)] == [BoxRefusalCode.GOOD] * 3
    assert box.open(authority.key()).code is BoxRefusalCode.GOOD


def test_new_roots_are_sent_in_order_from_the_root_of_the_box() -> None:
    box = Box()
    authority = box.authority
    roots = [authority.new_root("next-root"), authority.new_root("last-root")]
    other = Authority(sequence=90, root="other-root").new_root("stranger")
    authority.issuing, authority.service = "issuing-2", "service-2"
    authority.keys, authority.service_keys = ["issuing-2"], ["service-2"]
    told = [authority.list(2), authority.key_set(), roots[1], other, roots[0]]
    said = phone.brought(box.challenge(), ISS, told)
    assert [each.artefact for each in said] == [*roots, told[1], told[0]]
    assert [box.say(each).code for each in said] == [BoxRefusalCode.GOOD] * 4
    assert box.challenge().root == public("last-root").kid
    assert phone.brought(box.challenge(), ISS, told) == []
    half = Box()
    assert half.carry(roots[0]) is BoxRefusalCode.GOOD
    assert [each.artefact for each in phone.brought(half.challenge(), ISS, told)] == [roots[1], told[1], told[0]]


def test_an_older_list_is_sent_with_the_newest() -> None:
    """A challenge does not show the previous generation. A list later than the newest one is brought."""
    box = Box()
    box.passes(1)
    assert box.carry(box.authority.list(2)) is BoxRefusalCode.GOOD
    early = box.authority.list(1)
    assert phone.brought(box.challenge(), ISS, [early]) == []
    box.passes(1)
    later = [box.authority.list(3), box.authority.list(1), box.authority.list(2)]
    assert [each.artefact for each in phone.brought(box.challenge(), ISS, later)] == [later[1], later[2], later[0]]


def test_artefacts_for_another_box_are_not_sent() -> None:
    box = Box()
    box.passes(60)
    other = Authority(box.authority.now, "box:1042:1")
    challenge = box.challenge()
    artefacts = [other.list(), other.receipt(1, box.log[0]["digest"]), other.time(challenge.nonce)]
    assert phone.brought(challenge, ISS, artefacts) == []


@pytest.mark.parametrize("held", [0, 1, 3, 11])
def test_the_phone_fetches_the_log(held: int) -> None:
    box = Box()
    key = box.authority.key()
    for _ in range(10):
        box.passes(1)
        assert box.open(key).code is BoxRefusalCode.GOOD
    assert box.carry(box.authority.receipt(2, box.log[1]["digest"])) is BoxRefusalCode.GOOD
    got: list[bytes] = []
    challenge = box.challenge()
    last, following = max(held, challenge.first - 1), challenge.next + 1
    box.passes(1)
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD  # only a proven link gets entries
    while wanted := phone.fetch(following, last):
        fresh = link_messages.read(box.say(wanted).reply, EntriesMessage)
        got += fresh.entries
        last, following = last + len(fresh.entries), fresh.next
    assert got == list(box.state.kept.log.entries)[max(held - 2, 0) :]


def test_nothing_is_fetched_from_an_empty_log() -> None:
    assert phone.fetch(1, 0) is None
    assert phone.fetch(5, 4) is None
    assert phone.fetch(5, 3) == Fetch(4)


def test_a_challenge_that_was_altered_opens_nothing() -> None:
    box = Box()
    key, said = box.authority.key(), box.challenge()
    for altered in (said._replace(time=START + 5), said._replace(certain=0), said._replace(next=9)):
        box.hello()
        message = link_messages.write(_nonce(altered, box))
        answer = phone.answer(message, key, 1, 1, signer("phone-1").sign)
        assert box.say(answer).code is BoxRefusalCode.CHALLENGE


def _nonce(altered: Challenge, box: Box) -> Challenge:
    return altered._replace(nonce=box.state.running.links[0].nonce)


def _newer(box: Box) -> list[bytes]:
    """Newer artefacts of a server, in an order that is wrong for the box."""
    box.passes(60)
    authority = box.authority
    authority.rotate(2)
    receipt = authority.receipt(1, box.log[0]["digest"])
    return [receipt, authority.list(3), authority.list(2), authority.list(1), authority.key_set()]
