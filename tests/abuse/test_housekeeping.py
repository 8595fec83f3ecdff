"""B5: a disabled webhook with 1.5 million deliveries does not delay other housekeeping steps."""

from __future__ import annotations

import asyncio
import time

from keyrack.ops.housekeeping import STEPS
from tests.abuse.conftest import Figures
from tests.ops.test_housekeeping import OTHERS, house

DELIVERIES = 1_500_000
ROUNDS = 30


def test_a_disabled_webhook_with_many_deliveries_delays_no_step(own: str, figures: Figures) -> None:
    async def main() -> None:
        async with house(own) as keep:
            await keep.disabled(DELIVERIES)
            await keep.sql.execute("analyze delivery, delivery_lane")
            begun = time.monotonic()
            await keep.round()
            turn = time.monotonic() - begun
            others: int = await keep.sql.fetchval(OTHERS)
            for _ in range(ROUNDS):
                if (await keep.row("disabled webhooks"))["last_good"]:
                    break
                await keep.due()
                await keep.round()
            whole = time.monotonic() - begun
            left = await keep.office.count("Waiting")
            figures.at_least("B5 other steps that went well in the first round", others, "steps", len(STEPS) - 1)
            figures.at_most("B5 time of that round", turn, "s", 30)
            figures.at_most("B5 time until 1.5 million are given up", whole, "s", 300)
            figures.at_most("B5 deliveries left", left, "rows", 0)

    asyncio.run(main())
