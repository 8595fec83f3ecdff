"""The reference box: valid messages, refusals, and the state afterwards."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.box import firmware, held_lists
from keyrack.offline_keys.box.state import BoxLogState, PhoneBuckets, StatusList, TokenBucket
from keyrack.offline_keys.cbor import encode
from keyrack.offline_keys.link_messages import Enrol, Fetch, Hello, Open, Result, VersionsMessage
from keyrack.offline_keys.message_fields import KEY
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.authority import DAY, START, WEEK, Authority, Box
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
    assert box.result() == Result(BoxRefusalCode.AUDIENCE), "said, counted, and not written"
    assert box.state.running.refused == (1, BoxRefusalCode.AUDIENCE)
    assert box.say(Fetch(1)).code is BoxRefusalCode.NOT_NOW, "who has a key of another box does not read this log"


def test_a_box_has_no_authority_after_a_reset() -> None:
    box = Box()
    key = box.authority.key()
    assert box.say(Enrol(bytes(16))).code is BoxRefusalCode.NOT_NOW
    box.reset()
    assert box.challenge().name == ""
    assert box.challenge().root == b""
    assert box.carry(box.authority.key_set()) is BoxRefusalCode.NOT_NOW
    assert box.say(Enrol(bytes(16))).code is BoxRefusalCode.GOOD
    box.authority = Authority(box.authority.now, "box:1041:4")
    box.provision()
    assert box.open(key).code is BoxRefusalCode.AUDIENCE
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD
    assert [entry["number"] for entry in box.log] == [1, 2]


def test_a_provisioning_is_applied_completely_or_not_at_all() -> None:
    box = Box()
    given = box.authority
    other = Authority(now=given.now + 60)
    other.rotate(2, revoke=True)
    kept = box.state.copy().kept
    for made in (
        lambda nonce: other.provision(nonce)._replace(status_list=given.list()),
        lambda nonce: other.provision(nonce)._replace(provisioning=given.provision(nonce).provisioning),
        lambda nonce: other.provision(nonce)._replace(key_set=given.key_set()),
        lambda nonce: other.provision(bytes(16)),
        lambda nonce: other.provision(nonce)._replace(provisioning=other.provision(nonce).provisioning[:-1] + b"?"),
        lambda nonce: other.provision(nonce)._replace(status_list=other.list(2)),
        lambda nonce: other.provision(nonce)._replace(status_list=other.list()[:-1] + b"?"),
    ):
        outcome = box.say(made(box.challenge().nonce))
        assert outcome.code is not BoxRefusalCode.GOOD
        assert not outcome.persist
        assert box.state.kept == kept
    assert box.say(other.provision(box.challenge().nonce)).code is BoxRefusalCode.GOOD
    assert box.challenge().sequence == 2


def test_a_counter_that_does_not_grow_is_refused() -> None:
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


def test_the_box_remembers_64_phones_and_drops_the_oldest() -> None:
    box = Box()
    box.state.kept.phones = tuple((bytes([number]) * 32, number) for number in range(64))
    some = PhoneBuckets(TokenBucket(2, 0), TokenBucket(2, 0))
    box.state.running.phone_buckets = dict.fromkeys((phone for phone, _ in box.state.kept.phones), some)
    box.open(box.authority.key())
    phones = [phone for phone, _ in box.state.kept.phones]
    assert phones == [*(bytes([number]) * 32 for number in range(1, 64)), public("phone-1").thumbprint]
    assert list(box.state.running.phone_buckets) == phones, "with two buckets each"
    full = TokenBucket(4, box.tick)
    assert box.state.running.phone_buckets[phones[-1]] == PhoneBuckets(full, full)


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
    assert box.say(Fetch(99)).code is BoxRefusalCode.GOOD
    assert box.challenge().newest == box.log[-1]["digest"]


def test_a_receipt_frees_delivered_entries() -> None:
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


def test_a_full_log_still_records_openings() -> None:
    """Refusals leave 256 places for openings. The signed log shows what was dropped."""
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


def test_the_next_entry_has_the_count_of_refusals() -> None:
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


def test_a_flood_is_stopped_by_the_buckets() -> None:
    """A link has 8 tokens and one more each 4 s.

    All links together have 16, and one more each second.
    """
    box = Box()
    box.passes(60)
    key = box.authority.key()
    flood = [[box.open(key, on=on, by="phone-2").code for _ in range(9)] for on in (0, 1, 2)]
    taken = [BoxRefusalCode.ANSWER_SIGNATURE] * 8
    assert flood == [[*taken, BoxRefusalCode.BUSY]] * 2 + [[BoxRefusalCode.BUSY] * 9]
    codes: list[BoxRefusalCode] = []
    for _ in range(8):
        box.passes(1)
        codes.append(box.open(key, by="phone-2").code)
    assert codes.count(BoxRefusalCode.ANSWER_SIGNATURE) == 2


class Flood:
    """A box that has opened for phone-1, and is flooded by an unknown attacker."""

    def __init__(self) -> None:
        self.box = Box()
        self.key = self.box.authority.key()
        assert self.box.open(self.key).code is BoxRefusalCode.GOOD
        self.box.passes(60)
        self.flood()

    def flood(self) -> None:
        """Use up the tokens by new links, also those of the phone's link."""
        strangers = self.box.authority.key(cnf=public("phone-2"))
        self.box.connect(3)
        for link in (0, 1, 2):
            while self.box.open(strangers, on=link).code is not BoxRefusalCode.BUSY:
                pass

    def tokens(self) -> tuple[int, int]:
        """The tokens in the phone's buckets at their last refill."""
        both = self.box.state.running.phone_buckets[public("phone-1").thumbprint]
        return both.remembered_key.tokens, both.other_key.tokens


@pytest.fixture
def flood() -> Flood:
    return Flood()


def test_a_flood_does_not_shut_out_a_remembered_phone(flood: Flood) -> None:
    """An eavesdropper cannot do so either: an empty bucket of the phone is skipped."""
    box, key = flood.box, flood.key
    assert flood.tokens() == (4, 4), "a flood without knowledge of the phone takes none of its tokens"
    for _ in range(4):
        assert box.open(key, on=1, by="stranger").code is BoxRefusalCode.ANSWER_SIGNATURE
    assert flood.tokens() == (0, 4)
    assert box.open(key).code is BoxRefusalCode.BUSY, "nothing is left for this key"
    box.passes(1)
    assert box.open(key, on=2).code is BoxRefusalCode.GOOD, "from its own bucket"
    box.passes(60)
    for _ in range(4):
        assert box.open(key, on=1, by="stranger").code is BoxRefusalCode.ANSWER_SIGNATURE
    assert box.open(key).code is BoxRefusalCode.GOOD, "from the buckets of its link and of all"


def test_a_phone_whose_key_was_renewed_opens_during_a_flood(flood: Flood) -> None:
    box, renewed = flood.box, flood.box.authority.key()
    assert box.open(renewed).code is BoxRefusalCode.GOOD
    assert flood.tokens() == (4, 3)
    assert box.open(renewed, count=box.authority.now * 1000 + 1).code is BoxRefusalCode.GOOD
    assert flood.tokens() == (3, 3), "the key is remembered by now"
    assert box.open(box.authority.key(cnf=public("phone-2")), by="phone-2").code is BoxRefusalCode.BUSY


def test_forged_keys_of_a_phone_spend_only_tokens_for_other_keys(flood: Flood) -> None:
    """An attacker knows the phone's public key. The phone's remembered key still opens."""
    box = flood.box
    box.authority.issuing, known = "stranger", box.authority.issuing
    made_up = [cose.read(box.authority.key(), KEY) for _ in range(9)]
    box.authority.issuing = known
    for key in made_up:
        forged = key.raw.replace(public("stranger").kid, public(known).kid)
        code = box.open(forged, on=1, by="stranger").code
        assert code in (BoxRefusalCode.KEY_SIGNATURE, BoxRefusalCode.BUSY)
    assert box.code is BoxRefusalCode.BUSY
    assert flood.tokens() == (4, 0)
    assert box.open(box.authority.key()).code is BoxRefusalCode.BUSY
    assert box.open(flood.key).code is BoxRefusalCode.GOOD
    box.passes(1)
    assert box.open(box.authority.key(), on=2).code is BoxRefusalCode.GOOD, "it gets a token each second"


def test_an_open_that_cannot_succeed_spends_no_token_of_a_phone(flood: Flood) -> None:
    """Attempts that cannot succeed.

    They are a replay, a key for another box, an answer for another key, and a key by an unknown issuer.
    """
    box, other = flood.box, flood.box.authority.key()
    replayed = box.answer(flood.key)
    box.hello()
    assert box.say(replayed).code is BoxRefusalCode.BUSY
    assert box.open(box.authority.key(aud="box:1041:2")).code is BoxRefusalCode.BUSY
    assert box.say(Open(flood.key, box.answer(other).answer)).code is BoxRefusalCode.BUSY
    box.authority.issuing = "issuing-3"
    assert box.open(box.authority.key()).code is BoxRefusalCode.BUSY
    assert flood.tokens() == (4, 4)


@pytest.mark.parametrize("lost", ["power", "key set", "provisioning"])
def test_a_phone_is_remembered_without_a_remembered_key(flood: Flood, lost: str) -> None:
    box = flood.box
    if lost == "power":
        box.stops(3_600, clock_goes_on=True)
    else:
        box.passes(60)
        box.authority.sequence += 1
        assert lost == "provisioning" or box.carry(box.authority.key_set()) is BoxRefusalCode.GOOD
        assert lost == "key set" or not box.say(box.authority.provision(box.challenge().nonce)).code
    assert box.state.running.good == ()
    flood.flood()
    assert box.open(flood.key).code is BoxRefusalCode.GOOD
    assert flood.tokens() == (4, 3)


def test_a_new_link_ends_the_oldest_unproven_link() -> None:
    box = Box()
    key = box.authority.key()
    assert box.open(key, on=0).code is BoxRefusalCode.GOOD
    old = box.answer(key, on=1)
    assert box.connect(2) == [1, 2]
    assert box.say(old, 1).code is BoxRefusalCode.NONCE
    for on in (1, 2):
        box.passes(1)
        assert box.open(key, on=on).code is BoxRefusalCode.GOOD
    box.challenge(2)
    assert box.connect(1) == [2], "a hello ends the proof"
    assert box.say(Fetch(1), 0).code is BoxRefusalCode.GOOD
    box.state = firmware.disconnect(box.state, 0)
    assert box.connect(1) == [0], "a free place is taken first"


def test_proven_links_do_not_shut_out_a_new_link() -> None:
    """A driver holds three proven links. Then a phone brings the list that revokes the driver's key."""
    box = Box()
    key = box.authority.key()
    for on in (0, 1, 2):
        box.passes(1)
        assert box.open(key, on=on).code is BoxRefusalCode.GOOD
    box.authority.revoked = {1}
    for _ in range(3):
        (on,) = box.connect(1)
        box.passes(1)
        assert box.carry(box.authority.list(), on) is BoxRefusalCode.GOOD
        assert box.open(box.authority.key(3), on=on).code is BoxRefusalCode.GOOD


def test_a_proof_ends_after_300_seconds() -> None:
    """A proof ends, so a revoked phone on an old link reads no log."""
    box = Box()
    key = box.authority.key()
    assert box.open(key).code is BoxRefusalCode.GOOD
    box.authority.revoked = {1}
    box.passes(299)
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    assert box.say(Fetch(1)).code is BoxRefusalCode.GOOD
    box.passes(1)
    assert box.say(Fetch(1)).code is BoxRefusalCode.NOT_NOW
    assert box.open(box.authority.key(3)).code is BoxRefusalCode.GOOD
    assert box.say(Fetch(1)).code is BoxRefusalCode.GOOD, "another answer proves it anew"


@pytest.mark.parametrize(
    ("claims", "command", "code"),
    [
        ({}, 1, BoxRefusalCode.GOOD),
        ({"rights": [1]}, 2, BoxRefusalCode.RIGHT),
        ({"limit": 1}, 1, BoxRefusalCode.STALE),
        ({"limit": 1, "rights": [1]}, 2, BoxRefusalCode.STALE),
        ({"exp": START}, 1, BoxRefusalCode.EXPIRED),
        ({"nbf": START + DAY}, 1, BoxRefusalCode.NOT_YET),
        ({"aud": "box:1:1"}, 1, BoxRefusalCode.AUDIENCE),
        ({"iss": "customer:8"}, 1, BoxRefusalCode.ISSUER),
        ({"index": 7, "limit": 1}, 1, BoxRefusalCode.REVOKED),
    ],
    ids=str,
)
def test_only_drivers_of_the_box_fetch_its_log(claims: dict[str, Any], command: int, code: BoxRefusalCode) -> None:
    box = Box()
    key = box.authority.key(**claims)
    box.authority.revoked = {7}
    box.passes(1000)
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    box.passes(1000)
    assert box.open(key, command).code is code
    is_proven = code in (BoxRefusalCode.GOOD, BoxRefusalCode.RIGHT, BoxRefusalCode.STALE)
    assert (box.say(Fetch(1)).code is BoxRefusalCode.GOOD) is is_proven


def test_a_hello_ends_the_proof() -> None:
    box = Box()
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD
    assert link_messages.read(box.say(Hello([1, 3])).reply, VersionsMessage) == VersionsMessage([2])
    assert box.say(Fetch(1)).code is BoxRefusalCode.NOT_NOW


def test_a_box_answers_a_newer_phone_with_its_versions() -> None:
    box = Box()
    box.hear(encode([13, b""]))
    assert box.result() == Result(BoxRefusalCode.UNKNOWN)
    box.hear(encode([12, [2]]))
    assert box.result() == Result(BoxRefusalCode.REFUSED)


def test_each_link_has_its_own_nonce() -> None:
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


def test_a_nonce_is_valid_for_ten_seconds_and_until_the_next_hello() -> None:
    box = Box()
    key = box.authority.key()
    for wait, code in ((9, BoxRefusalCode.GOOD), (10, BoxRefusalCode.NONCE), (4000, BoxRefusalCode.NONCE)):
        said = box.answer(key)
        box.passes(wait)
        assert box.say(said).code is code
    said = box.answer(key)
    box.challenge()
    assert box.say(said).code is BoxRefusalCode.NONCE


def test_nonces_differ_even_if_the_random_source_repeats() -> None:
    box = Box()
    nonces = [box.challenge(on).nonce for on in (0, 1, 2, 0)]
    for _ in range(3):
        box.stops(1)
        nonces += [box.challenge(on).nonce for on in (0, 1)]
    assert len(set(nonces)) == len(nonces)


def test_the_number_of_verifications_reveals_nothing() -> None:
    """Two signatures are verified in each case, or one if the key is remembered."""
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


def test_a_new_key_set_clears_the_remembered_keys() -> None:
    box = Box()
    key = box.authority.key()
    box.open(key)
    assert box.state.running.good
    box.authority.rotate(2, revoke=True)
    assert box.carry(box.authority.key_set()) is BoxRefusalCode.GOOD
    assert box.open(key, count=START * 2000).code is BoxRefusalCode.ISSUING_KEY
    assert box.result().code is BoxRefusalCode.REFUSED
    assert box.open(box.authority.key(), count=START * 2000).code is BoxRefusalCode.LIST, "the old list has gone, too"
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    assert box.open(box.authority.key(), count=START * 2000).code is BoxRefusalCode.GOOD


def test_only_keys_that_opened_are_remembered() -> None:
    """A customer's key for another box costs its signatures each time."""
    box = Box()
    key = box.authority.key()
    assert box.open(key).code is BoxRefusalCode.GOOD
    for _ in range(20):
        box.passes(4)
        assert box.open(box.authority.key(aud="box:1:1")).code is BoxRefusalCode.AUDIENCE
    assert box.state.running.good == (hashlib.sha256(key).digest(),)


# A thief of an issuing key


def test_a_stolen_issuing_key_neither_sets_the_clock_nor_frees_entries() -> None:
    box = Box()
    box.open(box.authority.key())
    thief = dataclasses.replace(box.authority, service=box.authority.issuing, now=START + DAY)
    assert box.carry(thief.time(box.challenge().nonce)) is BoxRefusalCode.ISSUING_KEY
    assert box.carry(thief.receipt(2, box.log[-1]["digest"])) is BoxRefusalCode.ISSUING_KEY
    assert box.say(thief.provision(box.challenge().nonce)).code is BoxRefusalCode.ISSUING_KEY
    assert len(box.log) == 2


def test_a_service_key_issues_nothing() -> None:
    box = Box()
    thief = dataclasses.replace(box.authority, issuing=box.authority.service)
    assert box.open(thief.key()).code is BoxRefusalCode.ISSUING_KEY
    box.passes(1)
    thief.now += 1
    assert box.carry(thief.list()) is BoxRefusalCode.ISSUING_KEY


@pytest.mark.parametrize("generation", [1, 2, (1 << 53) - 1])
@pytest.mark.parametrize("uri", ["present", "other"])
@pytest.mark.parametrize("ahead", [1, WEEK])
def test_lists_of_a_thief_end_with_the_next_key_set(generation: int, uri: str, ahead: int) -> None:
    """A thief signs a list without revocations, in any place.

    After the next key set a revoked key does not open, and no list is refused.
    """
    box = Box()
    authority, key = box.authority, box.authority.key()
    thief = dataclasses.replace(authority, now=START + ahead)
    claims = {"sub": authority.uri(1) if uri == "present" else "https://thief.example/"}
    forged = box.carry(thief.list(generation, **claims))
    assert forged is (BoxRefusalCode.GENERATION if (uri == "present") != (generation == 1) else BoxRefusalCode.GOOD)
    authority.rotate(2, revoke=True)
    authority.revoked = {1}
    box.passes(60)
    assert box.carry(authority.key_set()) is BoxRefusalCode.GOOD
    assert box.carry(authority.list(1)) is BoxRefusalCode.GOOD
    assert box.carry(authority.list(2)) is BoxRefusalCode.GOOD
    assert box.open(authority.key(index=1)).code is BoxRefusalCode.REVOKED
    assert box.open(key).code is BoxRefusalCode.ISSUING_KEY
    assert box.open(authority.key(index=3)).code is BoxRefusalCode.GOOD


def test_a_list_far_ahead_of_the_clock_counts_as_absent() -> None:
    """The clock was wrong by a month, and was set. Artefacts of that time are no evidence, and block nothing."""
    box = Box()
    authority = box.authority
    authority.now += 30 * DAY
    assert box.carry(authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert box.carry(authority.list(1)) is BoxRefusalCode.GOOD
    authority.now = START + 100
    assert box.carry(authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert (box.challenge().generation, box.challenge().listed) == (0, 0)
    assert box.log[-1]["held"] == (1, 0, 0)
    assert box.open(authority.key()).code is BoxRefusalCode.LIST
    assert box.carry(authority.list(1)) is BoxRefusalCode.GOOD
    assert box.open(authority.key()).code is BoxRefusalCode.GOOD
    assert box.challenge().listed == authority.now


def test_no_older_list_is_accepted_after_a_provisioning() -> None:
    """A driver keeps an old list until a tool has set the clock."""
    box = Box()
    authority, key = box.authority, box.authority.key()
    box.passes(60)
    kept = authority.list(1)
    box.passes(60)
    authority.revoked = {1}
    assert box.carry(authority.list(1)) is BoxRefusalCode.GOOD
    for generation in (1, 2, 2):
        box.passes(60)
        box.provision(generation)
        assert box.carry(kept) is BoxRefusalCode.OLDER
        assert box.open(key).code is BoxRefusalCode.REVOKED
    authority.rotate(2, revoke=True)
    box.provision(3)
    assert [each.generation for each in box.state.authority.lists] == [3], "what another issuing key has signed"
    assert box.carry(kept) is BoxRefusalCode.ISSUING_KEY


def test_a_provisioning_replaces_lists_of_its_generation_and_of_later_ones() -> None:
    box = Box()
    authority = box.authority
    box.passes(1)
    assert box.carry(authority.list(2)) is BoxRefusalCode.GOOD
    assert [each.generation for each in box.state.authority.lists] == [2, 1]
    box.provision(1)
    assert [each.generation for each in box.state.authority.lists] == [1]
    box.passes(1)
    assert box.carry(authority.list(2)) is BoxRefusalCode.GOOD
    assert [each.generation for each in box.state.authority.lists] == [2, 1]


def test_a_new_root_replaces_the_previous_one() -> None:
    box = Box()
    authority = box.authority
    before = dataclasses.replace(authority, keys=["issuing-2"], service_keys=["service-2"], sequence=90)
    assert box.carry(authority.new_root("next-root")) is BoxRefusalCode.GOOD
    assert box.challenge().root == public("next-root").kid
    assert box.carry(before.key_set()) is BoxRefusalCode.ISSUING_KEY
    assert box.open(authority.key()).code is BoxRefusalCode.GOOD, "the key set stays"
    authority.rotate(2)
    assert box.carry(authority.key_set()) is BoxRefusalCode.GOOD
    box.passes(1)
    assert box.carry(authority.list()) is BoxRefusalCode.GOOD
    assert box.open(authority.key()).code is BoxRefusalCode.GOOD
    box.provision()


def test_times_do_not_push_out_openings() -> None:
    """A thief may bring 1,024 times. Those that set the clock leave 256 places."""
    box = Box()
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD
    persisted = 0
    for _ in range(1024):
        box.passes(4)
        nonce = box.challenge().nonce
        assert box.carry(box.authority.time(nonce)) is BoxRefusalCode.GOOD
        persisted += box.last is not None and box.last.persist
    assert [entry["event"] for entry in box.log] == [6, 1]
    assert persisted == 0, "nothing is written to the flash"
    for _ in range(1024):
        box.passes(4)
        box.authority.now += 60
        assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    events = [entry["event"] for entry in box.log]
    assert events == [6, 1, *[5] * 767]
    box.stops(0)
    box.connect(3)
    assert box.open(box.authority.key()).code is BoxRefusalCode.UNCERTAIN
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD
    assert box.log[-1]["skipped"] == 2, "a start, and a clock that was set; the count before is lost with the power"
    assert box.log[-1]["refused"] == (1, BoxRefusalCode.UNCERTAIN)


@given(st.data())
def test_no_changed_message_opens(data: st.DataObject) -> None:
    box, said = asked()
    message = bytearray(link_messages.write(said))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    outcome = firmware.receive(box.state, 0, bytes(message), box.tick, bytes(16), Own())
    assert outcome.effect is firmware.LockAction.NONE
    assert outcome.code is not BoxRefusalCode.GOOD
    # A changed number may be that of no message
    rejections = (Result(BoxRefusalCode.REFUSED), Result(BoxRefusalCode.UNKNOWN))
    assert link_messages.read(outcome.reply, Result) in rejections
    assert not outcome.persist


@given(st.binary(max_size=60), st.integers(0, 2))
def test_every_input_gets_an_answer(message: bytes, on: int) -> None:
    box, _ = asked()
    outcome = firmware.receive(box.state, on, message, box.tick, bytes(16), Own())
    assert outcome.reply
    assert outcome.effect is firmware.LockAction.NONE
    assert not outcome.persist


LISTS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 20)), max_size=20)


@given(LISTS)
def test_an_older_list_never_replaces_a_newer_one(offered: list[tuple[int, int]]) -> None:
    """The box keeps the two highest generations in any order.

    It has the latest list of each.
    """
    held: tuple[StatusList, ...] = ()
    for generation, iat in offered:
        try:
            held_lists.check(held, {"generation": generation, "sub": str(generation), "iat": iat})
        except cose.MessageRefused as refused:
            assert refused.code is BoxRefusalCode.OLDER
        else:
            held = held_lists.renewed(held, StatusList(str(generation), generation, iat, b"", b""))
        for taken in held:
            assert held.index(taken) < 2
            with pytest.raises(cose.MessageRefused) as refused:
                held_lists.check(held, {"generation": taken.generation, "sub": "other", "iat": 99})
            assert refused.value.code is BoxRefusalCode.GENERATION
    latest: dict[int, int] = {}
    for generation, iat in offered:
        latest[generation] = max(iat, latest.get(generation, 0))
    highest = sorted(latest.items(), reverse=True)[:2]
    assert [(each.generation, each.iat) for each in held] == highest


@functools.cache
def asked() -> tuple[Box, Open]:
    """A box, and messages that would open it."""
    box = Box()
    return box, box.answer(box.authority.key())
