"""Telemetry by MQTT: a QoS 1 subscription that acknowledges messages after the commit.

A persistent session at the broker keeps messages while no subscriber is connected. The broker repeats a message that
was not acknowledged before either side was lost. Repeated telemetry is harmless.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from ssl import create_default_context
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import aiomqtt
import asyncpg
import structlog

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.core.errors import ContentTooLarge, Unavailable
from keyrack.core.log_config import cause
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import Notify
from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.telemetry.ingest import Telemetry
from keyrack.telemetry.json_lines import InvalidLine, NotALine
from keyrack.telemetry.samples import CheckedSample, readings

log = structlog.get_logger("keyrack.mqtt")
seldom = ThrottledLogger("keyrack.mqtt")

AT_ONCE = 1_000  # messages that are stored together, at most
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between attempts to reach the broker
MINUTE = 60.0  # seconds
LONGEST_TOPIC = 200  # characters of a topic that the log shows
KEEPALIVE = 15  # seconds after which a silent connection is detected


class Subscriber:
    """Stores the samples that units publish, for all customers."""

    def __init__(self, db: Database, settings: Settings, tell: Notify) -> None:
        self._settings = settings
        self._telemetry = Telemetry(GroupCommitter(db), settings, tell)
        self._filter = settings.mqtt_topic.replace("{customer}", "+").replace("{unit}", "+")
        # a unit has exactly one topic: an id with leading zeros would bypass the broker's access rules
        pattern = re.escape(settings.mqtt_topic).replace(r"\{customer\}", r"([1-9][0-9]{0,9})")
        self._topic = re.compile(pattern.replace(r"\{unit\}", "([^/]+)"))
        self._stopping = asyncio.Event()
        self._refusals = RejectedSamples(settings.mqtt_logged_rejections_per_minute)

    def stop(self) -> None:
        """Stop after the messages that are being stored."""
        self._stopping.set()

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Receive messages until `stop`; reconnect without a limit."""
        try:
            await self._run(ready)
        finally:
            self._refusals.sum_up()

    async def _run(self, ready: Callable[[], None]) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                inbox: asyncio.Queue[aiomqtt.Message] = asyncio.Queue()
                client = self._client(inbox)
                async with client:
                    await client.subscribe(self._filter, qos=1)
                    ready()
                    failures = 0
                    await self._listen(client, inbox)
            except (aiomqtt.MqttError, OSError) as error:
                if self._stopping.is_set():
                    return
                log.warning("broker connection lost, reconnecting", error=str(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(PAUSES[min(failures, len(PAUSES) - 1)]):
                        await self._stopping.wait()
                failures += 1

    def _client(self, inbox: asyncio.Queue[aiomqtt.Message]) -> aiomqtt.Client:
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
            # a queue of this module, so that pending messages can be taken without a task for each
            queue_type=cast("type[asyncio.Queue[aiomqtt.Message]]", _giving(inbox)),
            tls_context=create_default_context() if secure else None,
        )
        _paho(client).manual_ack_set(True)
        return client

    async def _listen(self, client: aiomqtt.Client, inbox: asyncio.Queue[aiomqtt.Message]) -> None:
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
                while not inbox.empty() and len(batch) < AT_ONCE:
                    batch.append(inbox.get_nowait())
                await self._store_until_done(batch)
                for message in batch:
                    _paho(client).ack(message.mid, message.qos)
        finally:
            stopped.cancel()

    async def _store_until_done(self, batch: list[aiomqtt.Message]) -> None:
        """Store the messages. Without the database they stay here, unacknowledged, and none is lost."""
        parts: dict[int, list[CheckedSample]] = {}
        for number, message in enumerate(batch):
            self._read(number, message, parts)
        while parts:
            try:
                for customer in list(parts):
                    for number, reason in await self._store(customer, parts[customer]):
                        self._refusals.log(batch[number].topic.value, reason)
                    del parts[customer]
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable) as error:
                seldom.warning("messages not stored, retrying", error=error)
                await asyncio.sleep(0.5)

    async def _store(self, customer: int, part: list[CheckedSample]) -> list[tuple[int, str]]:
        """Store samples; return the rejected ones.

        If the database rejects the batch for its content, each sample is stored alone to find the faulty ones.
        """
        try:
            return (await self._telemetry.store(customer, part)).rejections
        except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
            if len(part) == 1:
                return [(part[0].line, cause(error))]
        return [refused for sample in part for refused in await self._store(customer, [sample])]

    def _read(self, number: int, message: aiomqtt.Message, parts: dict[int, list[CheckedSample]]) -> None:
        """Add the samples of a message to those of its customer. A sample's `line` is its message's number."""
        topic = self._topic.fullmatch(message.topic.value)
        if topic is None or int(topic[1]) > INT32_MAX:
            self._refusals.log(message.topic.value, "The topic does not match the configured pattern.")
            return
        try:
            if len(message.payload) >= self._settings.max_ingest:
                raise NotALine(f"The message must be smaller than {self._settings.max_ingest} bytes.")
            for _, reading in readings(message.payload, self._settings, topic[2]):
                if isinstance(reading, InvalidLine):
                    self._refusals.log(message.topic.value, str(reading))
                else:
                    reading.line = number
                    parts.setdefault(int(topic[1]), []).append(reading)
        except (NotALine, ContentTooLarge) as reason:
            self._refusals.log(message.topic.value, str(reason))


class RejectedSamples:
    """Logs rejected samples, up to a number per minute; further ones are only counted.

    Their messages are acknowledged, because they would be rejected again.
    """

    def __init__(self, max_per_minute: int) -> None:
        self._max_per_minute = max_per_minute
        self._since = -MINUTE
        self._count = 0

    def log(self, topic: str, reason: str) -> None:
        """Log the reason, unless this minute's limit is reached."""
        if time.monotonic() - self._since >= MINUTE:
            self.sum_up()
            self._since = time.monotonic()
        self._count += 1
        if self._count <= self._max_per_minute:
            log.warning("sample rejected", topic=topic[:LONGEST_TOPIC], reason=reason)
        elif self._count == self._max_per_minute + 1:
            log.warning("sample rejection log limit reached", limit_per_minute=self._max_per_minute)

    def sum_up(self) -> None:
        """Log how many rejections were only counted."""
        if self._count > self._max_per_minute:
            log.warning("sample rejections not logged", count=self._count - self._max_per_minute)
        self._count = 0


def _giving(inbox: asyncio.Queue[aiomqtt.Message]) -> Callable[[int], asyncio.Queue[aiomqtt.Message]]:
    def make(maxsize: int) -> asyncio.Queue[aiomqtt.Message]:
        return inbox

    return make


def _paho(client: aiomqtt.Client) -> Any:
    """The paho client of aiomqtt, which does not expose manual acknowledgement itself.

    Raises `RuntimeError`, before a connection exists, if this aiomqtt does not have it.
    """
    try:
        return client._client  # pyright: ignore[reportPrivateUsage] - there is no other way to it
    except AttributeError:
        raise RuntimeError(
            f"aiomqtt {version('aiomqtt')} has no _client. Install the version of requirements/runtime.txt."
        ) from None
