"""B4: slow webhooks of one customer do not delay those of another; customers take turns."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from typing import Any

import pytest

from keyrack.webhooks import delivery
from keyrack.webhooks.delivery_errors import NOT_REACHED
from keyrack.webhooks.sender import DeliveryAttempt, Sender
from tests.support.servers import DEADLINE
from tests.webhooks.delivery_database import LOCAL, Office, plain_request
from tests.webhooks.receiver import Received, Receiver

ATTACKERS = (1, 2, 3)
VICTIM = 4


@pytest.mark.parametrize("attackers", [1, 3])
def test_slow_webhooks_leave_places_to_others(own: str, attackers: int) -> None:
    """B4: receivers that wait until the other customer has received everything.

    If they took all places, these would be free again after 120 seconds, which is longer than the test waits.
    """
    over = threading.Event()

    def answer(request: Received) -> Any:
        if request.path == "/slow":
            over.wait(120)
        return 200, b"", {}

    async def main() -> None:
        with Receiver(answer) as receiver:
            async with Office.open(own) as office:
                for customer in ATTACKERS[:attackers]:
                    for lane in range(1, 13):
                        webhook = await office.webhook(receiver.url + "/slow", customer)
                        await office.deliver(webhook, lane, customer=customer)
                try:
                    async with office.worker(webhook_concurrency=8, webhook_timeout=120.0):
                        # One customer may hold half of the places, three a quarter each
                        held = "select count(*) from delivery_lane where lease is not null"
                        await office.until("places taken", held, {1: 4, 3: 6}[attackers])
                        mine = await office.webhook(receiver.url + "/quick", VICTIM)
                        for lane in range(1, 6):
                            await office.deliver(mine, lane, customer=VICTIM)
                        left = f"select count(*) from delivery_lane where customer_id = {VICTIM}"
                        await office.until("deliveries left", left, 0)
                        assert await office.sql.fetchval(held) == {1: 4, 3: 6}[attackers]
                        over.set()
                        await office.drained()
                finally:
                    over.set()
                paths = Counter(request.path for request in receiver.messages())
                assert paths == {"/quick": 5, "/slow": 12 * attackers}

    asyncio.run(main())


def test_slow_name_lookups_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: a name server does not answer. One customer may hold half of the places, each with another name."""
    over = threading.Event()
    real = socket.getaddrinfo

    def look_up(host: str, *args: Any, **options: Any) -> Any:
        if host.endswith(".example"):
            over.wait(120)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real(host, *args, **options)

    async def main() -> None:
        sender = Sender(LOCAL.model_copy(update={"webhook_timeout": 120.0}))
        with Receiver() as receiver:

            def send(url: str) -> asyncio.Task[DeliveryAttempt]:
                return asyncio.create_task(sender.send(plain_request(url)))

            slow = [send(f"http://{number}.example/") for number in range(LOCAL.webhook_concurrency // 2)]
            quick = send(f"http://localhost:{receiver.port}/")
            try:
                done, _ = await asyncio.wait({quick, *slow}, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
                assert done == {quick} and quick.result().succeeded
            finally:
                over.set()
            assert {(await task).error for task in slow} == {NOT_REACHED.text}
        await sender.close()

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    asyncio.run(main())


def test_customers_take_turns(own: str) -> None:
    """B4: each claim starts after the customer that was served last."""

    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(own) as office:
                for customer, webhooks in ((1, 1), (2, 3), (3, 1)):
                    for number in range(webhooks):
                        webhook = await office.webhook(f"{receiver.url}/{customer}", customer)
                        for lane in range(6 // webhooks):
                            await office.deliver(webhook, 10 * number + lane, customer=customer)
                async with office.worker(webhook_concurrency=1, webhook_timeout=DEADLINE):
                    await office.drained()
                assert [request.path for request in receiver.messages()] == ["/1", "/2", "/3"] * 6

    asyncio.run(main())


def test_several_claims_cover_many_webhooks(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: a claim looks at a limited number of webhooks. The next one continues there, also with several workers."""
    monkeypatch.setattr(delivery, "LOOK", 2)

    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(own) as office:
                later = "update delivery_lane set due_at = now() + interval '1 hour' where customer_id < 3"
                for customer in (1, 2, 3, 4):
                    for lane in range(1, 4):
                        webhook = await office.webhook(f"{receiver.url}/{customer}", customer)
                        await office.deliver(webhook, lane, 2, customer=customer)
                await office.sql.execute(later)
                async with office.worker(worker_poll=300.0), office.worker(worker_poll=300.0):
                    await office.until("lanes left", "select count(*) from delivery_lane where customer_id > 2", 0)
                    await office.sql.execute("update delivery_lane set due_at = now()")
                    await office.sql.execute("notify keyrack_deliver")
                    await office.drained()
                assert Counter(request.path for request in receiver.messages()) == {f"/{n}": 6 for n in (1, 2, 3, 4)}

    asyncio.run(main())
