"""B15: a topic restricts its messages to one customer and one unit. These tests need no broker."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from keyrack.core.settings import Settings
from keyrack.db.change_notifier import discard
from keyrack.db.connection import Database
from keyrack.telemetry.ingest import UNKNOWN_UNIT
from keyrack.telemetry.mqtt import Subscriber
from tests.support.log_lines import captured_events
from tests.support.people import Person
from tests.support.servers import patient_settings
from tests.telemetry.endpoints.test_ingest import Unit, ago, unit_of

REJECTED, LIMIT_REACHED = "sample rejected", "sample rejection log limit reached"
NOT_LOGGED = "sample rejections not logged"
ONLY_ITSELF = "A unit can only deliver its own samples."
OTHER_FORM = "The topic does not match the configured pattern."


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def taken(dsn: str, *messages: tuple[str, Any], settings: Settings | None = None) -> list[dict[str, Any]]:
    """Process messages as if they came from the broker; return the log events."""

    async def run() -> None:
        database = await Database.connect(dsn, patient_settings())
        try:
            subscriber = Subscriber(database, settings or Settings(), discard)
            await subscriber._store_until_done(
                [aiomqtt.Message(topic, json.dumps(body).encode(), 1, False, 0, None) for topic, body in messages]
            )
            subscriber._refusals.sum_up()
        finally:
            await database.close()

    with captured_events(REJECTED, LIMIT_REACHED, NOT_LOGGED) as logs:
        asyncio.run(run())
    return [dict(entry) for entry in logs]


def reasons(logs: list[dict[str, Any]]) -> list[str]:
    return [entry["reason"] for entry in logs]


def test_a_topic_accepts_only_samples_of_its_unit(unit: Unit, dsn: str) -> None:
    """B15: a sample that names another unit, by either number, is rejected and logged; the others are stored."""
    alice, other = unit.person, unit_of(unit.person)
    topic = f"keyrack/{alice.customer}/{unit.serial}/telemetry"
    unique = {"uniqueId": f"unique-{other.serial}", "carDataReadTime": ago(1), "oilLevel": 9}
    logs = taken(
        dsn,
        (topic, [other.sample(1, oilLevel=9), unique, unit.sample(1, oilLevel=5)]),
        (topic, other.sample(1, oilLevel=9)),
    )
    assert reasons(logs) == [ONLY_ITSELF] * 3
    assert {entry["topic"] for entry in logs} == {topic}
    assert (unit.told("oilLevel"), other.told("oilLevel")) == (5, None)


def test_a_topic_accepts_only_units_of_its_customer(unit: Unit, bob: Person, dsn: str) -> None:
    """B15: the unit must belong to the customer of the topic, and a customer has only one form of its number."""
    theirs = unit_of(bob)
    sample = {"carDataReadTime": ago(1), "oilLevel": 9}
    logs = taken(
        dsn,
        (f"keyrack/{bob.customer}/{unit.serial}/telemetry", sample),
        (f"keyrack/{unit.person.customer}/{theirs.serial}/telemetry", sample),
        (f"keyrack/0{bob.customer}/{theirs.serial}/telemetry", sample),
        (f"keyrack/99999999999/{theirs.serial}/telemetry", sample),
        (f"keyrack/{bob.customer}/{theirs.serial}/more/telemetry", sample),
    )
    assert sorted(reasons(logs)) == sorted([UNKNOWN_UNIT] * 2 + [OTHER_FORM] * 3)
    assert (unit.told("oilLevel"), theirs.told("oilLevel")) == (None, None)


def test_rejections_do_not_flood_the_log(unit: Unit, dsn: str) -> None:
    """B15: up to a number per minute are logged, then only counted. A long topic is truncated."""
    topic = f"keyrack/{unit.person.customer}/{'x' * 1_000}/telemetry"
    logs = taken(dsn, (topic, [{"colour": "red"}] * 25), settings=Settings(mqtt_logged_rejections_per_minute=10))
    assert reasons(logs[:10]) == ["There is no property 'colour'."] * 10
    assert all(len(entry["topic"]) == 200 for entry in logs[:10])
    assert [(entry["event"], entry.get("count"), entry.get("limit_per_minute")) for entry in logs[10:]] == [
        (LIMIT_REACHED, None, 10),
        (NOT_LOGGED, 15, None),
    ]


def test_the_documented_access_list_matches_the_topic() -> None:
    """B15: test_mqtt.py runs the access list in a broker, if one is installed."""
    text = (Path(__file__).parents[2] / "docs/mqtt.md").read_text()
    listens, publishes = re.findall(r"^(?:topic read|pattern write) (\S+)$", text, re.MULTILINE)
    topic = Settings().mqtt_topic
    assert listens == topic.format(customer="+", unit="+")
    assert publishes == topic.replace("{customer}/{unit}", "%u")


def test_an_incompatible_aiomqtt_is_rejected_before_it_connects(monkeypatch: pytest.MonkeyPatch, dsn: str) -> None:
    class OtherRelease:
        def __init__(self, *_: object, **__: object) -> None: ...

    async def run() -> None:
        database = await Database.connect(dsn, patient_settings())
        try:
            await Subscriber(database, Settings(), discard).run()
        finally:
            await database.close()

    monkeypatch.setattr(aiomqtt, "Client", OtherRelease)
    with pytest.raises(RuntimeError, match=r"aiomqtt [\d.]+ has no _client\. Install the version of requirements"):
        asyncio.run(run())
