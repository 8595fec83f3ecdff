"""In charge of the reference box: what opens it, what does not, and what it knows afterwards."""

from __future__ import annotations

import functools
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.carried_messages import is_newer, renewed
from keyrack.offline_keys.box.state import BoxLogState, StatusList
from keyrack.offline_keys.link_messages import Enrol, Fetch, Open, Provision, Result
from keyrack.offline_keys.message_fields import KEY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.authority import DAY, START, Authority, Box
from tests.offline_keys.fixed_keys import Own, public


def test_a_key_opens_and_closes() -> None:
    box = Box()
    key = box.authority.key()
    for command, effect in ((1, firmware.LockAction.OPEN), (2, firmware.LockAction.CLOSE)):
        box.passes(1)
        outcome = box.open(key, command)
        assert (outcome.code, outcome.effect) == (BoxRefusalCode.GOOD, effect)
        entry = box.log[-1]
        assert (entry["event"], entry["command"]) == (command, command)
        assert entry["device"] == public("phone-1").thumbprint
        assert entry["cti"] == cose.read(key, KEY).claims["cti"]
        assert entry["iat"] == box.now == box.authority.now


def test_a_replay_opens_nothing_and_proves_nothing() -> None:
    box = Box()
    said = box.answer(box.authority.key())
    assert box.say(said).code is BoxRefusalCode.GOOD
    numbers = box.state.kept.log.next
    for on in (0, 1):
        assert box.say(said, on).code is BoxRefusalCode.NONCE
        box.challenge(on)
        assert box.say(said, on).code is BoxRefusalCode.NONCE
        assert box.result() == Result(BoxRefusalCode.REFUSED)
    assert box.state.kept.log.next == numbers
    assert box.state.running.refused == (4, BoxRefusalCode.NONCE)
    assert box.say(Fetch(1), 1).code is BoxRefusalCode.NOT_NOW


def test_a_copied_key_opens_nothing_for_another_phone() -> None:
    box = Box()
    key = box.authority.key()
    assert box.open(key, by="phone-2").code is BoxRefusalCode.ANSWER_SIGNATURE
    own = box.answer(box.authority.key(cnf=public("phone-2")), by="phone-2")
    assert box.say(Open(key, own.answer)).code is BoxRefusalCode.OTHER_KEY
    assert box.result().code is BoxRefusalCode.REFUSED


@pytest.mark.parametrize("name", ["box:1042:3", "box:1041:2", "box:1041:4"])
def test_a_key_for_another_box_or_epoch_opens_nothing(name: str) -> None:
    box = Box()
    assert box.open(Authority(name=name).key()).code is BoxRefusalCode.AUDIENCE
    assert box.result().code is BoxRefusalCode.AUDIENCE
    assert box.log[-1]["code"] == BoxRefusalCode.AUDIENCE


def test_after_a_reset_the_box_obeys_nobody() -> None:
    box = Box()
    key = box.authority.key()
    assert box.say(Enrol(bytes(16))).code is BoxRefusalCode.NOT_NOW
    box.state = firmware.reset(public("box"), bytes(32), box.tick)
    assert box.challenge().name == ""
    assert box.carry(box.authority.key_set()) is BoxRefusalCode.NOT_NOW
    assert box.say(Enrol(bytes(16))).code is BoxRefusalCode.GOOD
    box.authority = Authority(box.authority.now, "box:1041:4")
    box.provision()
    assert box.open(key).code is BoxRefusalCode.AUDIENCE
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD
    assert [entry["number"] for entry in box.log] == [1, 2, 3]


def test_a_provisioning_is_taken_whole_or_not_at_all() -> None:
    box = Box()
    given = box.authority
    other = Authority(issuing="issuing-2", keys=["issuing-2"], now=given.now + 60, sequence=2)
    kept = box.state.copy().kept
    for made in (
        lambda nonce: (other.provisioning(nonce), other.key_set(), given.list()),
        lambda nonce: (given.provisioning(nonce), other.key_set(), other.list()),
        lambda nonce: (other.provisioning(nonce), given.key_set(), other.list()),
        lambda nonce: (other.provisioning(bytes(16)), other.key_set(), other.list()),
        lambda nonce: (other.provisioning(nonce)[:-1] + b"?", other.key_set(), other.list()),
        lambda nonce: (other.provisioning(nonce), other.key_set(), other.list()[:-1] + b"?"),
    ):
        outcome = box.say(Provision(*made(box.challenge().nonce)))
        assert outcome.code is not BoxRefusalCode.GOOD
        assert not outcome.persist
        assert box.state.kept == kept
    nonce = box.challenge().nonce
    assert box.say(Provision(other.provisioning(nonce), other.key_set(), other.list())).code is BoxRefusalCode.GOOD
    assert box.challenge().sequence == 2


def test_a_counter_that_goes_back_tells_of_a_copy() -> None:
    box = Box()
    key = box.authority.key()
    assert box.open(key, count=10).code is BoxRefusalCode.GOOD
    for count, code in (
        (10, BoxRefusalCode.COUNTER),
        (9, BoxRefusalCode.COUNTER),
        (11, BoxRefusalCode.GOOD),
        (0, BoxRefusalCode.COUNTER),
    ):
        assert box.open(key, count=count).code is code
        assert box.log[-1]["counter"] == count
    refused = box.answer(key, count=20)
    box.authority.revoked = {1}
    box.passes(1)
    box.carry(box.authority.list())
    assert box.say(refused).code is BoxRefusalCode.REVOKED
    assert dict(box.state.kept.phones)[public("phone-1").thumbprint] == 11, "what is refused does not count"


def test_64_phones_are_remembered_and_the_oldest_goes() -> None:
    box = Box()
    box.state.kept.phones = tuple((bytes([number]) * 32, number) for number in range(64))
    box.open(box.authority.key())
    phones = [phone for phone, _ in box.state.kept.phones]
    assert phones == [*(bytes([number]) * 32 for number in range(1, 64)), public("phone-1").thumbprint]


def test_the_log_is_a_chain() -> None:
    box = Box()
    for command in (1, 2, 1, 1):
        box.passes(60)
        box.open(box.authority.key(), command)
    box.stops(DAY)
    box.carry(box.authority.time(box.challenge().nonce))
    entries = box.log
    assert [entry["number"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[0]["previous"] == bytes(32)
    assert all(after["previous"] == before["digest"] for before, after in pairwise(entries))
    assert [entry["event"] for entry in entries] == [6, 1, 2, 1, 1, 4, 5]
    assert [entry["certain"] for entry in entries] == [1, 1, 1, 1, 1, 0, 1]
    box.open(box.authority.key())
    assert box.entries() == list(box.state.kept.log.entries)
    assert box.challenge().newest == box.log[-1]["digest"]


def test_a_receipt_frees_what_is_home() -> None:
    box = Box()
    for _ in range(5):
        box.passes(1)
        box.open(box.authority.key())
    third = box.log[2]
    assert box.carry(box.authority.receipt(3, box.log[3]["digest"])) is BoxRefusalCode.RECEIPT
    assert box.carry(box.authority.receipt(3, third["digest"])) is BoxRefusalCode.GOOD
    assert box.carry(box.authority.receipt(3, third["digest"])) is BoxRefusalCode.OLDER
    assert [entry["number"] for entry in box.log] == [4, 5, 6]
    box.open(box.authority.key())
    assert box.log[-1]["first"] == 4


def fill(box: Box, held: int) -> None:
    """The log with its first entry in all those places."""
    log = box.state.kept.log
    box.state.kept.log = BoxLogState(log.entries[:1] * held, held + 1, log.newest)


def test_a_log_that_fills_keeps_openings() -> None:
    """Refusals leave 256 places, and openings go on: what is gone is said, signed."""
    box = Box()
    key, other = box.authority.key(rights=[1]), box.authority.key(rights=[2])
    fill(box, 768)
    assert box.open(other).code is BoxRefusalCode.RIGHT
    assert box.result().entry
    assert box.open(other).code is BoxRefusalCode.RIGHT
    assert box.result() == Result(BoxRefusalCode.RIGHT), "proven, and said, and not written"
    assert box.state.running.refused == (1, BoxRefusalCode.RIGHT)
    fill(box, 1023)
    for first in (1, 2, 3):
        box.passes(1)
        assert box.open(key).code is BoxRefusalCode.GOOD
        assert len(box.log) == 1024
        assert box.log[-1]["first"] == box.state.kept.log.first == first


def test_refusals_are_counted_until_an_entry_says_so() -> None:
    box = Box()
    for _ in range(3):
        box.hear(b"\xff")
    box.hear(b"")
    box.open(box.authority.key(), by="phone-2")
    box.open(box.authority.key())
    assert box.log[-1]["refused"] == (5, BoxRefusalCode.ANSWER_SIGNATURE)
    box.passes(1)
    box.open(box.authority.key())
    assert box.log[-1]["refused"] == (0, BoxRefusalCode.GOOD)
    box.hear(b"")
    box.stops(0)
    assert box.log[-1]["refused"] == (0, BoxRefusalCode.GOOD), "the count is lost with the power"


def test_a_flood_is_stopped_by_the_bucket() -> None:
    box = Box()
    box.passes(60)
    key = box.authority.key()
    codes = [box.open(key, by="phone-2").code for _ in range(20)]
    assert codes == [BoxRefusalCode.ANSWER_SIGNATURE] * 16 + [BoxRefusalCode.BUSY] * 4
    assert box.open(key).code is BoxRefusalCode.BUSY
    box.passes(1)
    assert box.open(key).code is BoxRefusalCode.GOOD
    assert box.open(key).code is BoxRefusalCode.BUSY
    box.passes(3600)
    assert [box.open(key, count=START * 2000 + number).code for number in range(17)] == [BoxRefusalCode.GOOD] * 16 + [
        BoxRefusalCode.BUSY
    ]


def test_three_links_have_each_their_own_nonce() -> None:
    box = Box()
    keys = [box.authority.key() for _ in range(3)]
    said = [box.answer(key, on=on, count=on + 1) for on, key in enumerate(keys)]
    assert box.say(said[1], 0).code is BoxRefusalCode.NONCE
    assert box.say(said[0], 0).code is BoxRefusalCode.NONCE, "that of link 0 has died"
    box.state = firmware.disconnect(box.state, 1)
    assert box.say(said[1], 1).code is BoxRefusalCode.NONCE
    assert box.say(said[2], 2).code is BoxRefusalCode.GOOD
    assert box.say(Fetch(1), 2).code is BoxRefusalCode.GOOD
    box.state = firmware.disconnect(box.state, 2)
    assert box.say(Fetch(1), 2).code is BoxRefusalCode.NOT_NOW


def test_a_nonce_lives_ten_seconds_and_to_the_next_hello() -> None:
    box = Box()
    key = box.authority.key()
    for wait, code in ((9, BoxRefusalCode.GOOD), (10, BoxRefusalCode.NONCE), (4000, BoxRefusalCode.NONCE)):
        said = box.answer(key)
        box.passes(wait)
        assert box.say(said).code is code
    said = box.answer(key)
    box.challenge()
    assert box.say(said).code is BoxRefusalCode.NONCE


def test_a_nonce_never_comes_again_though_chance_repeats() -> None:
    box = Box()
    nonces = [box.challenge(on).nonce for on in (0, 1, 2, 0)]
    for _ in range(3):
        box.stops(1)
        nonces += [box.challenge(on).nonce for on in (0, 1)]
    assert len(set(nonces)) == len(nonces)


def test_what_is_verified_says_nothing_of_what_the_box_knows() -> None:
    """Two signatures, whatever the judgement is; one where the key was good before."""
    box = Box()
    keys = [
        box.authority.key(),
        box.authority.key(exp=1),
        box.authority.key(aud="box:1:1"),
        box.authority.key(limit=1),
        Authority(issuing="stranger").key(),
    ]
    box.passes(3600)
    for key in keys:
        for by in ("phone-1", "phone-2"):
            fresh = Box(own=box.own)
            fresh.passes(60)
            assert fresh.own.verified is not None
            said = fresh.answer(key, by=by)
            fresh.own.verified.clear()
            fresh.say(said)
            assert len(fresh.own.verified) == 2
    assert box.open(keys[0]).code is BoxRefusalCode.GOOD
    box.passes(1)
    said = box.answer(keys[0])
    assert box.own.verified is not None
    box.own.verified.clear()
    assert box.say(said).code is BoxRefusalCode.GOOD
    assert len(box.own.verified) == 1


def test_what_was_good_is_forgotten_with_the_key_set() -> None:
    box = Box()
    key = box.authority.key()
    box.open(key)
    assert box.state.running.good
    box.authority.sequence, box.authority.keys, box.authority.issuing = 2, ["issuing-2"], "issuing-2"
    assert box.carry(box.authority.key_set()) is BoxRefusalCode.GOOD
    assert box.open(key, count=START * 2000).code is BoxRefusalCode.ISSUING_KEY
    assert box.result().code is BoxRefusalCode.REFUSED
    assert box.open(box.authority.key(), count=START * 2000).code is BoxRefusalCode.GOOD


@given(st.data())
def test_no_message_that_was_changed_opens(data: st.DataObject) -> None:
    box, said = asked()
    message = bytearray(link_messages.write(said))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    outcome = firmware.receive(box.state, 0, bytes(message), box.tick, bytes(16), Own())
    assert outcome.effect is firmware.LockAction.NONE
    assert outcome.code is not BoxRefusalCode.GOOD
    assert link_messages.read(outcome.reply, Result) == Result(BoxRefusalCode.REFUSED)
    assert not outcome.persist


@given(st.binary(max_size=60), st.integers(0, 2))
def test_whatever_comes_is_answered(message: bytes, on: int) -> None:
    box, _ = asked()
    outcome = firmware.receive(box.state, on, message, box.tick, bytes(16), Own())
    assert outcome.reply
    assert outcome.effect is firmware.LockAction.NONE
    assert not outcome.persist


LISTS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), max_size=20)


@given(LISTS)
def test_lists_never_go_back(offered: list[tuple[int, int]]) -> None:
    """Of two generations, the newer first; neither is older afterwards, and none comes back that has gone."""
    held = (StatusList("1", 1, 1, b""),)
    for generation, iat in offered:
        before = {each.generation: each.iat for each in held}
        if is_newer(held, generation, iat):
            held = renewed(held, StatusList(str(generation), generation, iat, b""))
            assert any((each.generation, each.iat) == (generation, iat) for each in held)
        after = {each.generation: each.iat for each in held}
        assert list(after) == sorted(after, reverse=True)
        assert len(after) <= 2
        assert max(after) >= max(before)
        assert all(iat >= before[each] for each, iat in after.items() if each in before)
        assert all(each > max(before) for each in after.keys() - before.keys())


@functools.cache
def asked() -> tuple[Box, Open]:
    """A box, and what would open it."""
    box = Box()
    return box, box.answer(box.authority.key())
