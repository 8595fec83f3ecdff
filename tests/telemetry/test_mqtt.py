"""Telemetry by MQTT, with a real broker and the real command: no loss if either side is killed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from keyrack.core.settings import Settings
from keyrack.db.change_notifier import discard
from keyrack.db.connection import Database
from keyrack.telemetry.mqtt import Subscriber
from keyrack.telemetry.samples import CheckedSample, readings
from tests.docs.code_blocks import block
from tests.support.people import Person
from tests.support.servers import DEADLINE, Process, eventually, free_port, patient_settings, reachable_directory
from tests.telemetry.endpoints.test_ingest import Unit, ago, unit_of

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(MOSQUITTO is None, reason="Mosquitto is not installed (apt-get install mosquitto)"),
]

PAGE = "docs/mqtt.md"
CONFIGURATION = f"""
listener {{port}} 127.0.0.1
allow_anonymous true
persistence_location {{directory}}/
{block(PAGE, "persistence").text}
"""


class Broker:
    def __init__(self, directory: Path, configuration: str = CONFIGURATION) -> None:
        self.port = free_port()
        self._file = directory / "mosquitto.conf"
        self._file.write_text(configuration.format(port=self.port, directory=directory))
        if os.geteuid() == 0:
            self._file.write_text(self._file.read_text() + "user root\n")
        self.start()

    def start(self) -> None:
        assert MOSQUITTO is not None
        self.process = subprocess.Popen(
            [MOSQUITTO, "-c", str(self._file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._listens, "the broker")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with reachable_directory() as directory:
        running = Broker(directory)
        yield running
        running.kill()


@pytest.fixture
def strict_broker() -> Iterator[tuple[Broker, Path]]:
    """A broker with the access list of docs/mqtt.md, and its password file."""
    settings = block(PAGE, "broker").text.replace("/etc/mosquitto/", "{directory}/")
    with reachable_directory() as directory:
        passwords = directory / "passwords"
        passwords.touch(0o600)
        (directory / "acl").write_text(block(PAGE, "acl").text)
        running = Broker(directory, "listener {port} 127.0.0.1\n" + settings)
        yield running, passwords
        running.kill()


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


class Listening:
    """`keyrack ingest-mqtt`, with its session at the broker."""

    def __init__(self, dsn: str, broker: Broker) -> None:
        env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_MQTT_URL": f"mqtt://127.0.0.1:{broker.port}"}
        self.process = Process("ingest-mqtt", "--json", env=env)
        line = self.process.popen.stdout.readline()
        assert json.loads(line)["topic"] == "keyrack/{customer}/{unit}/telemetry"

    def kill(self) -> None:
        self.process.stop(signal.SIGKILL)

    def stop(self) -> str:
        assert self.process.stop() == 0
        return self.process.popen.stderr.read()


def publish(broker: Broker, topic: str, *payloads: Any) -> None:
    """Publish, and return when the broker has received everything."""

    async def run() -> None:
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            for payload in payloads:
                body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                await client.publish(topic, body, qos=1)

    asyncio.run(run())


def topic(unit: Unit) -> str:
    return f"keyrack/{unit.person.customer}/{unit.serial}/telemetry"


def sample(minutes: float, **values: Any) -> dict[str, Any]:
    return {"carDataReadTime": ago(minutes), **values}


def odometers(unit: Unit) -> list[float]:
    return unit.odometers()


def test_published_readings_are_stored(broker: Broker, unit: Unit, dsn: str) -> None:
    listening = Listening(dsn, broker)
    publish(broker, topic(unit), sample(3, odometer=5), [sample(2, odometer=6), sample(1, odometer=7)])
    eventually(lambda: odometers(unit) == [5, 6, 7], "the readings")
    listening.stop()


def test_rejected_messages_are_logged_and_not_repeated(broker: Broker, unit: Unit, bob: Person, dsn: str) -> None:
    listening = Listening(dsn, broker)
    publish(broker, topic(unit), b"{broken", sample(1, colour="red"), sample(1, serialNumber="other"))
    publish(broker, topic(unit), json.dumps(sample(1, odometer=1))[:-1].encode() + b', "odometer": 2}')
    publish(broker, f"keyrack/{bob.customer}/{unit.serial}/telemetry", sample(1, odometer=1))
    publish(broker, f"keyrack/99999999999/{unit.serial}/telemetry", sample(1, odometer=1))
    publish(broker, topic(unit), sample(1, odometer=9))
    eventually(lambda: odometers(unit) == [9], "the reading")
    told = listening.stop()
    reasons = (
        "not valid JSON", "There is no property 'colour'", "only deliver its own samples", "No IQ product",
        "does not match", "given more than once",
    )  # fmt: skip
    assert [reason for reason in reasons if reason not in told] == []
    again = Listening(dsn, broker)
    publish(broker, topic(unit), sample(0, odometer=10))  # it follows any message that would be repeated
    eventually(lambda: odometers(unit) == [9, 10], "the reading")
    assert "refused" not in again.stop()


@pytest.mark.skipif(shutil.which("mosquitto_passwd") is None, reason="makes the passwords of the broker")
def test_the_documented_access_list_restricts_a_unit_to_its_topic(
    strict_broker: tuple[Broker, Path], unit: Unit, alice: Person, bob: Person
) -> None:
    """B15: the topic identifies the unit, so the broker must bind it to the user."""
    broker, passwords = strict_broker
    own, other = f"{alice.customer}/{unit.serial}", f"{alice.customer}/other"
    for user in ("keyrack", own, other):
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), user, "secret"], check=True, capture_output=True)
    broker.process.send_signal(signal.SIGHUP)  # makes it reload the passwords

    async def run() -> list[str]:
        heard: list[str] = []

        async def publish(user: str, *topics: str) -> None:
            async with aiomqtt.Client("127.0.0.1", broker.port, username=user, password="secret") as client:
                for topic in topics:
                    await client.publish(f"keyrack/{topic}/telemetry", b"", qos=1)

        async with aiomqtt.Client("127.0.0.1", broker.port, username="keyrack", password="secret") as listener:
            await listener.subscribe("keyrack/+/+/telemetry", qos=1)
            await publish(own, other, f"{bob.customer}/{unit.serial}", f"0{own}", own)
            await publish(other, own, other)
            async for message in listener.messages:
                heard.append(message.topic.value)
                if message.topic.value == f"keyrack/{other}/telemetry":  # the last published topic
                    return heard
        return heard

    eventually(lambda: asyncio.run(asyncio.wait_for(_connects(broker), DEADLINE)), "the broker with its passwords")
    assert asyncio.run(asyncio.wait_for(run(), DEADLINE)) == [f"keyrack/{own}/telemetry", f"keyrack/{other}/telemetry"]


async def _connects(broker: Broker) -> bool:
    try:
        async with aiomqtt.Client("127.0.0.1", broker.port, username="keyrack", password="secret"):
            return True
    except aiomqtt.MqttError:
        return False


def test_nothing_is_lost_when_the_subscriber_is_killed(broker: Broker, unit: Unit, dsn: str) -> None:
    for round in range(3):
        listening = Listening(dsn, broker)
        publish(broker, topic(unit), *[sample(900 - round * 100 - n, odometer=round * 100 + n) for n in range(50)])
        listening.kill()
        publish(broker, topic(unit), *[sample(850 - round * 100 - n, odometer=round * 100 + 50 + n) for n in range(50)])
    listening = Listening(dsn, broker)
    eventually(lambda: odometers(unit) == list(range(300)), "all readings")
    listening.stop()


def test_nothing_is_lost_when_the_broker_is_killed(broker: Broker, unit: Unit, dsn: str) -> None:
    listening = Listening(dsn, broker)
    for round in range(3):
        told = [sample(900 - round * 100 - n, odometer=round * 100 + n) for n in range(100)]
        publish(broker, topic(unit), *told)
        broker.kill()
        broker.start()
        # Mosquitto may acknowledge before it saves, so a careful unit publishes again
        publish(broker, topic(unit), *told)
    eventually(lambda: odometers(unit) == list(range(300)), "all readings")
    assert "broker connection lost" in listening.stop()


def test_messages_wait_while_no_subscriber_is_connected(broker: Broker, unit: Unit, dsn: str) -> None:
    Listening(dsn, broker).stop()
    publish(broker, topic(unit), *[sample(100 - n, odometer=n) for n in range(50)])
    listening = Listening(dsn, broker)
    eventually(lambda: len(odometers(unit)) == 50, "the readings")
    listening.stop()


def test_a_sample_that_the_database_rejects_does_not_block_others(unit: Unit, dsn: str) -> None:
    """PostgreSQL rejects one sample of a batch. The others are stored, and the rejection is reported."""

    async def run() -> list[tuple[int, str]]:
        database = await Database.connect(dsn, patient_settings())
        subscriber = Subscriber(database, Settings(), discard)
        values = [json.dumps(sample(9 - n, odometer=n) | {"serialNumber": unit.serial}) for n in range(5)]
        part = [
            found for _, found in readings("\n".join(values).encode(), Settings()) if isinstance(found, CheckedSample)
        ]
        part[2].values["vin"] = "\x00"  # no line can contain this, because every text is checked
        refused = await subscriber._store(unit.person.customer, part)
        await database.close()
        return refused

    (refused,) = asyncio.run(run())
    assert refused[0] == 3
    assert odometers(unit) == [0, 1, 3, 4]
