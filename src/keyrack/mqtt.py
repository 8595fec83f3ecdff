"""In charge of telemetry that comes by MQTT: subscribed with QoS 1, acknowledged once it is committed.

A persistent session at the broker keeps what comes while nobody listens. A message that is not acknowledged comes
again after a loss of either side, and telemetry that comes again is harmless.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from ssl import create_default_context
from typing import Any
from urllib.parse import unquote, urlsplit

import aiomqtt
import asyncpg
import structlog

from keyrack.api import INT32_MAX
from keyrack.batching import Batches
from keyrack.db import UNREACHABLE, Database
from keyrack.errors import Unavailable
from keyrack.lines import NotALine, Report
from keyrack.settings import Settings
from keyrack.telemetry import Telemetry

log = structlog.get_logger("keyrack.mqtt")

AT_ONCE = 1_000  # messages that are stored together
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between attempts to reach the broker
KEEPALIVE = 15  # seconds after which a silent connection is noticed


class Subscriber:
    """Takes in what units publish, for all customers."""

    def __init__(self, db: Database, settings: Settings) -> None:
        self._settings = settings
        self._telemetry = Telemetry(Batches(db), settings)
        self._filter = settings.mqtt_topic.replace("{customer}", "+").replace("{unit}", "+")
        pattern = re.escape(settings.mqtt_topic).replace(r"\{customer\}", r"([0-9]{1,10})")
        self._topic = re.compile(pattern.replace(r"\{unit\}", "([^/]+)"))
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End after the messages that are being stored."""
        self._stopping.set()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Take in messages until `stop`; reconnect for as long as it takes."""
        failures = 0
        while not self._stopping.is_set():
            try:
                client = self._client()
                async with client:
                    await client.subscribe(self._filter, qos=1)
                    ready()
                    failures = 0
                    await self._listen(client)
            except (aiomqtt.MqttError, OSError) as error:
                if self._stopping.is_set():
                    return
                log.warning("broker lost; trying again", error=str(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(PAUSES[min(failures, len(PAUSES) - 1)]):
                        await self._stopping.wait()
                failures += 1

    def _client(self) -> aiomqtt.Client:
        url = urlsplit(self._settings.mqtt_url)
        secure = url.scheme == "mqtts"
        client = aiomqtt.Client(
            url.hostname or "127.0.0.1",
            url.port or (8883 if secure else 1883),
            username=unquote(url.username) if url.username else None,
            password=unquote(url.password) if url.password else None,
            identifier=self._settings.mqtt_client,
            clean_session=False,
            keepalive=KEEPALIVE,
            tls_context=create_default_context() if secure else None,
        )
        _paho(client).manual_ack_set(True)
        return client

    async def _listen(self, client: aiomqtt.Client) -> None:
        stopped = asyncio.create_task(self._stopping.wait())
        messages = client.messages
        try:
            while not stopped.done():
                first = asyncio.ensure_future(anext(messages))
                await asyncio.wait((first, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not first.done():
                    first.cancel()
                    with suppress(asyncio.CancelledError, aiomqtt.MqttError):
                        await first
                    return
                batch = [first.result()]
                while len(messages) and len(batch) < AT_ONCE:
                    batch.append(await anext(messages))
                await self._store_until_done(batch)
                for message in batch:
                    _paho(client).ack(message.mid, message.qos)
        finally:
            stopped.cancel()

    async def _store_until_done(self, batch: list[aiomqtt.Message]) -> None:
        """Store the messages; while the database is away they stay here, unacknowledged, and none is lost."""
        while True:
            try:
                await asyncio.gather(*(self._store(message) for message in batch))
                return
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable) as error:
                log.warning("messages not stored yet; trying again", error=str(error))
                await asyncio.sleep(0.5)

    async def _store(self, message: aiomqtt.Message) -> None:
        topic = self._topic.fullmatch(message.topic.value)
        if topic is None or int(topic[1]) > INT32_MAX:
            log.warning("message refused", topic=message.topic.value, reason="The topic has another form.")
            return
        report = Report()
        try:
            report = await self._telemetry.ingest(int(topic[1]), message.payload, topic[2])
        except NotALine as reason:
            report.refuse(1, str(reason))
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            report.refuse(1, str(error))  # it would be refused again
        for line, reason in report.refused[:3]:
            log.warning("sample refused", topic=message.topic.value, line=line, reason=reason)


def _paho(client: aiomqtt.Client) -> Any:
    """The client below aiomqtt, which does not hand on paho's acknowledgement by hand."""
    return client._client  # pyright: ignore[reportPrivateUsage]
