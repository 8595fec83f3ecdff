"""Weeks of a garage without a network: no wrong opening, no wrong rejection, and faults are detected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from textwrap import dedent
from typing import Any

import pytest

from keyrack.cli.commands import simulate_keys
from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.offline_keys.box import carried_messages, clock, decision, verification_budget
from keyrack.offline_keys.box.state import BoxMemory
from keyrack.offline_keys.cose import PublicKey, SignedMessage
from keyrack.offline_keys.message_fields import KEY_SET
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.simulator import offline
from keyrack.simulator.offline import Garage, ScenarioSummary, pass_weeks
from keyrack.simulator.offline.attackers import (  # fmt: skip
    ALTERED,
    BEHIND,
    COPIED,
    ELSEWHERE,
    FOUND,
    REPLAYED,
    STOLEN_KEY,
    STOPPED,
)
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.summary import MADE_KEY
from tests.docs.code_blocks import block
from tests.support.servers import Sql, migrated_database

pytestmark = pytest.mark.cluster

DAY = 86_400
LONG = os.environ.get("KEYRACK_LONG")


@pytest.fixture
def empty(database_server: str) -> Iterator[str]:
    """A separate database, so that product numbers start at 1."""
    with migrated_database(database_server) as dsn:
        yield dsn


IMPOSSIBLE = (STOLEN_KEY, REPLAYED, ALTERED, ELSEWHERE)
POSSIBLE = (FOUND, STOPPED, COPIED, BEHIND, MADE_KEY)  # within the documented windows
REFUSED = {"revoked", "expired", "not-yet", "stale", "uncertain", "audience", "nonce", "challenge"}
HAPPENED = {
    "phones lost", "phones removed", "private keys copied", "services ended", "boxes put into another car",
    "boxes enrolled again", "issuing keys rotated", "batteries taken out by thieves", "assignments given",
    "assignments changed", "assignments ended", "losses of power, the clock stood",
    "losses of power, the clock went on", "logs brought home in part, out of order", "logs brought home twice",
    "roots replaced", "issuing keys stolen", "issuing keys revoked", "floods of messages",
    "new keys shown during a flood",
    "lists signed by a stolen issuing key", "times and receipts signed by a stolen issuing key",
    "times brought to push entries out", "clocks set by a phone with a network",
    "old lists and those of other boxes offered",
}  # fmt: skip


def simulate(settings: Settings, dsn: str, **options: Any) -> ScenarioSummary:
    return pass_weeks(settings, dsn, Garage(**options))


def test_a_correct_system_passes_the_scenario(settings: Settings, empty: str) -> None:
    found = simulate(settings, empty, weeks=1.5, cars=5, users=10, limit=DAY // 2, seed=1)
    assert (found.without_right, found.rights_refused, found.disagreements) == ([], [], [])
    assert found.is_good
    assert found.opened > 100
    assert found.owed > 50, "so many must not be refused"
    assert found.events > found.opened, "thieves have opened, too, within the windows"
    assert 0 < found.longest <= found.longest_bound
    assert set(found.tries) == {*POSSIBLE, *IMPOSSIBLE}
    assert all(found.tries[name] > 5 and found.gains[name] == 0 for name in IMPOSSIBLE)
    assert found.gains[FOUND] > 0, "that is what the window is for"
    assert found.gains[MADE_KEY] > 0, "until boxes have the next key set"
    assert found.reports["UnknownKey"] == found.gains[MADE_KEY]
    assert set(found.refused) >= REFUSED
    assert set(found.happened) >= HAPPENED
    assert sum(found.reports.values()) > 0, "logs were forged"


# Checks that faulty boxes omit: those of boxes 2 to 5, and again of 6 to 9. The first box is correct
FORGIVEN = (
    ({BoxRefusalCode.STALE}, {BoxRefusalCode.REVOKED}, {BoxRefusalCode.EXPIRED}, {BoxRefusalCode.COUNTER}),
    (
        {BoxRefusalCode.NOT_YET},
        {BoxRefusalCode.UNCERTAIN},
        {BoxRefusalCode.OTHER_KEY, BoxRefusalCode.NONCE, BoxRefusalCode.CHALLENGE},
        set[BoxRefusalCode](),
    ),
)
# Faults of the second group, whose boxes also accept old lists: any signature is valid, no time is stored
CARELESS, TIMELESS = 2, 3


# Seeds whose weeks have an occasion for each fault
@pytest.mark.parametrize(("number", "seed"), [(0, 1), (1, 6)])
def test_faulty_boxes_are_detected(
    settings: Settings, empty: str, monkeypatch: pytest.MonkeyPatch, number: int, seed: int
) -> None:
    judge, is_answered, write_down, check_newer = (
        decision.decide,
        decision.is_answered,
        clock.write_down,
        carried_messages._check_newer,
    )
    verify = VirtualBox.verify

    def fault(name: str) -> int | None:
        """The index of the fault of the box with this name."""
        product = int(name.split(":")[1])
        return None if product == 1 else (product - 2) % 4

    def judge_less(state: BoxMemory, *rest: Any) -> list[BoxRefusalCode]:
        which = fault(state.authority.name)
        forgiven = set[BoxRefusalCode]() if which is None else FORGIVEN[number][which]
        return [code for code in judge(state, *rest) if code not in forgiven]

    def answers(link: Any, key: SignedMessage, answer: SignedMessage) -> bool:
        return bool(number and fault(key.claims["aud"]) == CARELESS) or is_answered(link, key, answer)

    def write(state: BoxMemory, tick: int) -> None:
        authority = state.kept.authority
        if not number or authority is None or fault(authority.name) != TIMELESS or not state.kept.floor:
            write_down(state, tick)

    def check(state: BoxMemory, signed: SignedMessage, tick: int) -> None:
        if not number or fault(state.authority.name) is None:
            check_newer(state, signed, tick)

    def verifies(box: VirtualBox, public: PublicKey, message: bytes, signature: bytes) -> bool:
        is_careless = number and fault(f"box:{box.product}") == CARELESS
        return bool(is_careless) or verify(box, public, message, signature)

    monkeypatch.setattr(decision, "decide", judge_less)
    monkeypatch.setattr(decision, "is_answered", answers)
    monkeypatch.setattr(clock, "write_down", write)
    monkeypatch.setattr(carried_messages, "_check_newer", check)
    monkeypatch.setattr(VirtualBox, "verify", verifies)
    found = simulate(settings, empty, weeks=1.5, cars=9, users=18, limit=DAY // 3, seed=seed)
    wrong, disagreeing = named(found.without_right), named(found.disagreements)
    assert [codes for which, codes in enumerate(FORGIVEN[number]) if codes and not wrong & {which + 2, which + 6}] == []
    texts = ("its clock is", "accepted an artefact that is old")
    told = {text for line in found.disagreements for text in texts if text in line}
    assert len(told) == 2 * number
    assert 1 not in wrong | disagreeing


def test_boxes_that_keep_lists_of_a_revoked_signer_are_detected(
    settings: Settings, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise lists of a stolen issuing key hide revocations.

    They do so even after the key's own revocation.
    """
    apply = carried_messages._apply

    def keep(state: BoxMemory, signed: SignedMessage, *rest: Any) -> None:
        lists = state.authority.lists
        apply(state, signed, *rest)
        if signed.message is KEY_SET:
            state.kept.authority = replace(state.authority, lists=lists)

    monkeypatch.setattr(carried_messages, "_apply", keep)
    assert not simulate(settings, empty, weeks=1.5, cars=5, users=10, limit=DAY // 2, seed=4).is_good


def test_boxes_that_know_phones_only_by_their_keys_are_detected(
    settings: Settings, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood then locks out a phone with a renewed key.

    After a power loss, it locks out every phone.
    """
    take = verification_budget.take_for_open

    def take_by_key(*rest: Any, is_remembered_key: bool) -> None:
        *others, phone = rest
        take(*others, phone if is_remembered_key else None, is_remembered_key=is_remembered_key)

    monkeypatch.setattr(verification_budget, "take_for_open", take_by_key)
    found = simulate(settings, empty, weeks=1, cars=5, users=10, limit=DAY // 2, seed=4)
    assert any("a flood has shut out a phone that the box knows" in line for line in found.rights_refused)


def named(lines: list[str]) -> set[int]:
    """The numbers of the boxes that the lines name."""
    return {int(word.split(":")[1]) for line in lines for word in line.replace(",", " ").split() if "box:" in word}


def test_a_faulty_server_is_detected(settings: Settings, empty: str) -> None:
    """Removed phones keep their keys, and every third event is lost."""
    sql = Sql(empty)
    sql.execute("drop trigger revoke_keys_of_devices_delete on app_device")
    sql.execute("create rule lose as on insert to event where new.event_id % 3 = 0 do instead nothing")
    sql.close()
    found = simulate(settings, empty, weeks=1.5, cars=3, users=10, seed=4)
    assert found.without_right
    assert any("events" in line or "the server has" in line for line in found.disagreements)


def test_docs_simulator_shows_the_output_of_the_command() -> None:
    """The same seed repeats the output."""
    page = "docs/simulator.md"
    command = block(page, "weeks").text.split()
    told = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False, env=os.environ)
    assert told.returncode == 0, told.stdout + told.stderr
    assert dedent(told.stdout) == block(page, "seen").text


@contextmanager
def no_database() -> Iterator[tuple[Settings, str]]:
    yield Settings(), ""


def test_the_command_fails_if_the_scenario_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The test of docs/simulator.md covers success."""
    found = ScenarioSummary(1, None, opens_uncertain=False, without_right=["a thief at box:1:1"])
    monkeypatch.setattr(simulate_keys, "_thrown_away", no_database)
    monkeypatch.setattr(offline, "pass_weeks", lambda *_: found)
    with pytest.raises(SystemExit) as end:
        application("simulate-keys")(["simulate-keys", "--json"])
    assert end.value.code == 1
    assert json.loads(capsys.readouterr().out)["openedWithoutRight"] == ["a thief at box:1:1"]


@pytest.mark.skipif(not LONG, reason="make test-keys-weeks")
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (11, {}),
        (12, {"limit": 2 * DAY}),
        (13, {"limit": DAY, "opens_uncertain": True}),
        (14, {"opens_uncertain": True}),
        (15, {"limit": DAY // 2, "cars": 12, "users": 30}),
    ],
)
def test_eight_weeks(settings: Settings, empty: str, seed: int, options: dict[str, Any]) -> None:
    found = simulate(settings, empty, weeks=8, seed=seed, **options)
    print("", f"seed {seed}", *found.lines(), sep="\n")
    assert found.is_good
