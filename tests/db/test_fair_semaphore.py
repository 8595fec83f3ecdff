"""The fair semaphore: shares, order, and limits of the queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyrack.core.errors import Unavailable
from keyrack.db.fair_semaphore import PROCESS, TOO_LONG, TOO_MANY, FairSemaphore, TenantShares

A, B = TenantShares(("a",), 2), TenantShares(("b",), 2)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def asked(shares: FairSemaphore, who: TenantShares) -> asyncio.Task[None]:
    """A caller that has a permit or waits for it."""
    task = asyncio.create_task(shares.take(who))
    await asyncio.sleep(0)
    return task


def test_no_tenant_gets_more_than_its_share() -> None:
    async def work() -> None:
        shares = FairSemaphore(4, 10, 60, "tests")
        first = [await asked(shares, A) for _ in range(3)]
        assert [task.done() for task in first] == [True, True, False]
        assert (await asked(shares, B)).done()
        shares.give_back(A)
        await first[2]

    run(work())


def test_each_tenant_has_its_own_share() -> None:
    """A manager with two customers gets no more than one with a single customer."""

    async def work() -> None:
        shares = FairSemaphore(10, 10, 60, "tests")
        tasks = [await asked(shares, TenantShares((("customer", number), ("manager", 1)), 2)) for number in range(3)]
        assert [task.done() for task in tasks] == [True, True, False]
        tasks[2].cancel()

    run(work())


def test_the_tenant_with_the_fewest_permits_is_next() -> None:
    async def work() -> None:
        shares = FairSemaphore(2, 10, 60, "tests")
        many = [await asked(shares, A) for _ in range(5)]
        late = await asked(shares, B)
        shares.give_back(A)
        await late
        assert sum(task.done() for task in many) == 2
        shares.give_back(A)
        shares.give_back(B)
        await asyncio.gather(*many[2:4])
        many[4].cancel()

    run(work())


def test_the_process_itself_comes_first_and_is_never_rejected() -> None:
    async def work() -> None:
        shares = FairSemaphore(1, 1, 60, "tests")
        await shares.take(PROCESS)
        customer = await asked(shares, A)
        own = [await asked(shares, PROCESS) for _ in range(5)]
        for task in own:
            shares.give_back(PROCESS)
            await task
        assert not customer.done()
        shares.give_back(PROCESS)
        await customer

    run(work())


def test_the_queue_is_limited_in_length_and_time() -> None:
    async def work() -> None:
        shares = FairSemaphore(1, 2, 0.05, "tests")
        await shares.take(B)
        waiting = [await asked(shares, A) for _ in range(2)]
        with pytest.raises(Unavailable) as refused:
            await shares.take(A)
        assert (refused.value.text, refused.value.headers["Retry-After"]) == (TOO_MANY.text, "1")
        for task in waiting:
            with pytest.raises(Unavailable) as refused:
                await task
            assert refused.value.text == TOO_LONG.text
        shares.give_back(B)
        await shares.take(A)

    run(work())


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["take", "cancel", "give back"]), st.integers(0, 5)), max_size=60),
)
def test_permits_are_neither_lost_nor_created(total: int, steps: list[tuple[str, int]]) -> None:
    """Permits are taken, cancelled and returned in any order. Limits hold, and no caller waits for a free one."""
    callers = [TenantShares((f"customer {number}", f"manager {number % 2}"), 2) for number in range(5)] + [PROCESS]

    async def work() -> None:
        shares = FairSemaphore(total, 100, 60, "tests")
        tasks: list[tuple[TenantShares, asyncio.Task[None]]] = []
        for what, number in steps:
            who = callers[number]
            mine = [pair for pair in tasks if pair[0] == who]
            if what == "take":
                tasks.append((who, asyncio.create_task(shares.take(who))))
            elif what == "give back" and (held := [pair for pair in mine if pair[1].done()]):
                tasks.remove(held[0])
                shares.give_back(who)
            elif what == "cancel" and (waiting := [pair for pair in mine if not pair[1].done()]):
                waiting[-1][1].cancel()  # at once, so that it may be cancelled at the moment of the grant
                tasks.remove(waiting[-1])
            if number % 2:
                await asyncio.sleep(0)
        for _ in range(3):
            await asyncio.sleep(0)
        holders = [who for who, task in tasks if task.done()]
        has = Counter(party for who in holders for party in who.tenants)
        assert len(holders) <= total
        assert all(count <= 2 for count in has.values())
        if len(holders) < total:
            assert all(
                any(has[party] == 2 for party in who.tenants) for who, task in tasks if not task.done() and who.tenants
            )
            assert not [who for who, task in tasks if not task.done() and not who.tenants]
        for _, task in tasks:
            task.cancel()

    run(work())
