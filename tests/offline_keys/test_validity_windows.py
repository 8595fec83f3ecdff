"""Validity of revoked keys, and changes of a box's clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.state import TokenBucket
from keyrack.offline_keys.cbor import GREATEST
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.authority import DAY, START, WEEK, Box

TOLERANCE = 300


def test_a_key_opens_from_nbf_to_exp() -> None:
    box = Box()
    key = box.authority.key(nbf=START + 1000, exp=START + 2000)
    for at, code in (
        (699, BoxRefusalCode.NOT_YET),
        (700, BoxRefusalCode.GOOD),
        (2299, BoxRefusalCode.GOOD),
        (2300, BoxRefusalCode.EXPIRED),
    ):
        box.passes(START + at - box.authority.now)
        assert box.open(key).code is code, at


def test_a_revoked_key_opens_until_its_limit_without_newer_lists() -> None:
    box = Box()
    key = box.authority.key(limit=DAY)
    box.passes(3600)
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    box.authority.revoked = {1}
    box.passes(DAY)
    assert box.open(key).code is BoxRefusalCode.GOOD
    box.passes(1)
    assert box.open(key).code is BoxRefusalCode.STALE
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    assert box.open(key).code is BoxRefusalCode.REVOKED


def test_a_newer_list_extends_the_limit_of_a_key() -> None:
    box = Box()
    key = box.authority.key(limit=3600)
    box.passes(3601)
    assert box.open(key).code is BoxRefusalCode.STALE
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    assert box.open(key).code is BoxRefusalCode.GOOD
    box.passes(3600)
    assert box.open(box.authority.key(limit=3600)).code is BoxRefusalCode.GOOD, "a new key is evidence, too"


def test_a_power_loss_sets_the_clock_back_to_the_floor_at_most() -> None:
    box = Box()
    key = box.authority.key(rights=[1, 2, 3], exp=START + 7200)
    box.passes(3600)
    box.state = firmware.write_down(box.state, box.tick)
    box.passes(800)
    box.stops(DAY)
    assert box.now == START + 3600
    assert box.challenge().certain == 0
    assert box.open(box.authority.key(nbf=START, iat=START)).code is BoxRefusalCode.UNCERTAIN
    assert box.open(key).code is BoxRefusalCode.GOOD
    assert box.log[-1]["certain"] == 0
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert box.now == box.authority.now
    assert box.open(key).code is BoxRefusalCode.EXPIRED


def test_a_clock_that_kept_running_stays_certain() -> None:
    box = Box()
    box.stops(DAY, clock_goes_on=True)
    assert (box.now, box.challenge().certain) == (box.authority.now, 1)
    box.stops(DAY)
    box.stops(DAY, clock_goes_on=True)
    assert (box.now, box.challenge().certain) == (box.authority.now - DAY, 0)


def test_a_signed_artefact_moves_the_clock_by_a_week_at_most() -> None:
    box = Box()
    box.authority.now += WEEK + 1
    for artefact in (box.authority.list(), box.authority.receipt(1, box.log[0]["digest"])):
        assert box.carry(artefact) is BoxRefusalCode.FUTURE
    key = box.authority.key()
    assert box.open(key).code is BoxRefusalCode.FUTURE
    assert box.now == START
    box.passes(1)
    assert box.open(key).code is BoxRefusalCode.GOOD
    assert box.now == START + WEEK + 1
    assert box.state.kept.ahead == WEEK


def test_artefacts_move_the_clock_by_a_week_in_total() -> None:
    """The total holds over power losses, until a time or a provisioning."""
    box = Box()
    for day in range(7):
        box.authority.now += DAY
        artefact = box.authority.list() if day % 2 else box.authority.receipt(1, box.log[0]["digest"])
        if day == 0:
            assert box.carry(artefact) is BoxRefusalCode.GOOD
        else:
            assert box.open(box.authority.key(rights=[1, 3])).code is BoxRefusalCode.GOOD
        box.stops(0)
    assert (box.now, box.state.kept.ahead) == (START + WEEK, WEEK)
    box.authority.now += 1
    assert box.carry(box.authority.list()) is BoxRefusalCode.FUTURE
    assert box.open(box.authority.key(rights=[1, 3])).code is BoxRefusalCode.FUTURE
    box.passes(1)
    assert box.carry(box.authority.list()) is BoxRefusalCode.FUTURE
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert box.state.kept.ahead == 0
    box.authority.now += WEEK
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    box.provision()
    assert box.state.kept.ahead == 0


def test_a_small_correction_of_the_clock_is_not_logged() -> None:
    box = Box()
    floor, entries = box.state.kept.floor, len(box.log)
    for by in (59, -59):
        box.authority.now += by
        assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
        assert box.now == box.authority.now
    assert (box.state.kept.floor, len(box.log)) == (floor, entries)
    box.authority.now += 60
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert (box.state.kept.floor, len(box.log)) == (box.now, entries + 1)


def test_a_valid_key_moves_the_clock_from_any_caller() -> None:
    """Also one for another box, and with an invalid answer: an issuing key has signed it."""
    box = Box()
    box.authority.now += DAY
    assert box.open(box.authority.key(aud="box:1:1"), by="phone-2").code is BoxRefusalCode.AUDIENCE
    assert box.now == box.authority.now
    box.authority.now += DAY
    assert box.open(box.authority.key(iss="customer:8")).code is BoxRefusalCode.ISSUER
    assert box.now == box.authority.now
    box.authority.now += DAY
    box.authority.issuing = "stranger"
    assert box.open(box.authority.key()).code is BoxRefusalCode.ISSUING_KEY
    assert box.now == box.authority.now - DAY


def test_a_time_moves_the_clock_back_with_its_floor() -> None:
    box = Box()
    box.passes(5000)
    box.authority.now -= 4000
    assert box.carry(box.authority.list()) is BoxRefusalCode.GOOD
    assert box.now == START + 5000, "an artefact never moves it back"
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert box.now == box.state.kept.floor == START + 1000
    old = box.authority.time(box.challenge().nonce)
    box.challenge()
    assert box.carry(old) is BoxRefusalCode.NONCE


def test_a_clock_at_the_last_time_can_be_set_back() -> None:
    box = Box()
    now, box.authority.now = box.authority.now, GREATEST
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    box.tick += 5
    assert box.challenge().time == GREATEST
    box.authority.now = now
    assert box.carry(box.authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
    assert box.open(box.authority.key()).code is BoxRefusalCode.GOOD


SECONDS = st.integers(0, DAY) | st.sampled_from((3600, 3601, DAY, 2 * DAY, 4 * DAY))
DONE = st.one_of(
    st.tuples(st.just("wait"), SECONDS),
    st.tuples(st.just("lag"), st.integers(1, 900)),
    st.tuples(st.just("stop"), SECONDS),
    st.tuples(st.just("go on"), SECONDS),
    st.tuples(st.just("issue"), st.integers(0, 1)),
    st.tuples(st.just("revoke"), st.integers(0, 9)),
    st.tuples(st.just("list"), st.just(0)),
    st.tuples(st.just("carry"), st.integers(0, 9)),
    st.tuples(st.just("tell"), st.just(0)),
    st.tuples(st.just("time"), st.just(0)),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("open"), st.integers(0, 9)),
)


def fill(box: Box) -> None:
    """Fill the buckets, which limit the messages of one second."""
    links = box.state.running.links
    box.state.running.bucket = TokenBucket(16, box.tick)
    box.state.running.links = tuple(replace(each, bucket=TokenBucket(8, box.tick)) for each in links)


@dataclass
class Key:
    raw: bytes
    index: int
    exp: int
    iat: int
    limit: int
    revoked: int | None = None  # time of the revocation


@dataclass
class History:
    """A box, keys, revocations, and lists that are carried or not."""

    limit: int
    box: Box = field(default_factory=Box)
    keys: list[Key] = field(default_factory=list[Key])
    lists: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    listed: int = START  # the iat of the box's list
    count: int = 0

    def do(self, what: str, number: int) -> None:
        box, authority = self.box, self.box.authority
        match what:
            case "wait":
                box.passes(number)
            case "lag":
                authority.now += number
            case "stop" | "go on":
                box.stops(number, clock_goes_on=what == "go on")
            case "issue":
                index, exp = len(self.keys), authority.now + 3 * DAY
                rights = [1, 2, 3] if number else [1, 2]
                raw = authority.key(index, exp=exp, limit=self.limit, rights=rights)
                self.keys.append(Key(raw, index, exp, authority.now, self.limit))
            case "revoke":
                key = self.keys[number % len(self.keys)]
                key.revoked = key.revoked or authority.now
                authority.revoked.add(key.index)
            case "list":
                self.lists.append((authority.now, authority.list()))
            case "tell":
                self.do("list", 0)
                self.do("carry", 0)
            case "carry" if self.lists:
                iat, artefact = self.lists[-1 - number % len(self.lists)]
                if box.carry(artefact) is BoxRefusalCode.GOOD:
                    self.listed = iat
            case "time":
                assert box.carry(authority.time(box.challenge().nonce)) is BoxRefusalCode.GOOD
            case "write":
                box.state = firmware.write_down(box.state, box.tick)
            case "open":
                self.open(self.keys[number % len(self.keys)])
            case _:
                pass

    def open(self, key: Key) -> None:
        fill(self.box)
        was_certain = bool(self.box.state.kept.is_certain)
        self.count += 1
        outcome = self.box.open(key.raw, count=self.count)
        now = self.box.authority.now
        slow = now - self.box.now
        assert slow >= 0, "only what was signed moves the clock, and that is never ahead"
        if outcome.effect is firmware.LockAction.OPEN:
            evidence = max(key.iat, self.listed)
            assert now <= min(key.exp, evidence + key.limit) + TOLERANCE + slow
            if key.revoked is not None:
                assert now <= min(key.exp, key.revoked + key.limit) + TOLERANCE + slow
                assert self.listed <= key.revoked
        elif key.revoked is None and was_certain and not slow:
            late = now > max(key.iat, self.listed) + key.limit
            assert late or now >= key.exp + TOLERANCE, outcome.code.text


@settings(max_examples=120)
@given(st.sampled_from((3600, DAY, WEEK)), st.lists(DONE, max_size=30))
def test_a_revoked_key_opens_as_long_as_the_formula_says(limit: int, done: list[tuple[str, int]]) -> None:
    history = History(limit)
    history.do("issue", 1)
    for what, number in [*done, ("time", 0), *(("open", key) for key in range(len(history.keys)))]:
        fill(history.box)
        history.do(what, number)


@pytest.mark.parametrize("limit", [3600, DAY])
def test_the_formula_is_exact(limit: int) -> None:
    """A key opens in its last second, and not in the next one."""
    history = History(limit)
    for what, number in (("issue", 1), ("wait", 100), ("list", 0), ("carry", 0), ("revoke", 0), ("wait", limit)):
        history.do(what, number)
    assert history.box.open(history.keys[0].raw).code is BoxRefusalCode.GOOD
    history.do("wait", 1)
    assert history.box.open(history.keys[0].raw).code is BoxRefusalCode.STALE
