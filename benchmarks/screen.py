"""The browser's view: delay of an outcome, and script times of a large board and the map.

Debian's headless Chromium runs on the server's machine. Times are by that machine's clock.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

import asyncpg
from playwright.async_api import Page, async_playwright
from tests.support.browser import ABSENT, ARGUMENTS, CHROMIUM

from benchmarks.foundation import LARGE, UNLIMITED, database, free_port, load, running
from benchmarks.outcomes import workers
from benchmarks.sizes import sized
from benchmarks.tables import row, table

OUTCOMES = sized(50, tiny=1)
LOOKS = sized(10, tiny=1)
CARS = sized(10_000, tiny=1_300)

FILL = """
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select customer_id, car_id || kind, car_id || kind, car_id, kind, car_id
  from car, unnest(array['Box', 'IQ']) kind where customer_id in (2, 3);
insert into service (customer_id, name, product_id)
  select customer_id, product_id, product_id from product where customer_id = 2;
insert into customer_user (customer_id, user_id) select 2, user_id from person where user_id <> 2;
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
  select 2, car_id, 1 + car_id % 3, t, t + interval '3 days', 604800, 302400
  from car, unnest(array[4, 18]) d, lateral (select date_trunc('month', now()) + d * interval '1 day' t) x
  where customer_id = 2;
insert into car_state (customer_id, car_id, product_id, read_at, telemetry, position_since, position_at, latitude,
    longitude)
  select 3, car_id, product_id, now(), '{}', now(), now(), 47 + car_id % 97 * 0.07, 7 + car_id % 89 * 0.08
  from product where customer_id = 3 and kind = 'IQ';
vacuum analyze
"""
# The time of the frame that shows the outcome, with a new page or within one
SEEN = """
globalThis.when = new Promise((done) => { globalThis.shown = done; });
const look = () => {
  if (globalThis.seen || ![...document.querySelectorAll("[data-outcome]")].some((e) => /Done/.test(e.textContent)))
    return;
  globalThis.seen = true;
  requestAnimationFrame(() => setTimeout(() => shown(Date.now())));
};
new MutationObserver(look).observe(document, { childList: true, subtree: true });
"""
# The begin of the transaction that the worker committed
FINISHED = """
select extract(epoch from max(finished_at))::float8 from operation where customer_id = $1
"""
# Milliseconds of each frame during zooming out and in on the map
FRAMES = """
async () => {
  const times = [], canvas = document.querySelector("#fleet-map canvas"), { x, y, width, height } =
    canvas.getBoundingClientRect();
  let last = performance.now(), going = true;
  const frame = (now) => { times.push(now - last); last = now; if (going) requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  for (let step = 0; step < 24; step += 1) {
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: step < 12 ? -240 : 240, bubbles: true, cancelable: true,
      clientX: x + width / 2, clientY: y + height / 2 }));
    await new Promise((done) => setTimeout(done, 120));
  }
  going = false;
  return times;
}
"""


async def signed_in(page: Page) -> None:
    await page.goto("/console/sign-in")
    await page.get_by_label("User name").fill("bench")
    await page.get_by_label("Password").fill("bench")
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", level=1).first.wait_for()


async def outcomes(page: Page, dsn: str) -> list[float]:
    """Milliseconds from the start of a worker's transaction to the outcome's frame."""
    raw = await asyncpg.connect(dsn)
    found: list[float] = []
    for number in range(OUTCOMES):
        start = f"{2031 + number // 12}-{1 + number % 12:02}-01T08:00"
        await page.goto(f"/console/{LARGE}/assignments/new?car=101&user=1&start={start}&end={start[:8]}02T08:00")
        await page.get_by_role("button", name="Book", exact=True).last.click()
        await page.get_by_text("Done", exact=True).first.wait_for()
        shown = await page.evaluate("globalThis.when")
        found.append(shown - await raw.fetchval(FINISHED, LARGE) * 1e3)
    await raw.close()
    return sorted(found)


async def board(page: Page) -> tuple[float, float, int]:
    """Median milliseconds of scripts and of the page, and the number of bars."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable")
    scripts: list[float] = []
    loads: list[float] = []
    for _ in range(LOOKS):
        begin = time.perf_counter()
        await page.goto(f"/console/{LARGE}/assignments/board?days=31&rows=500")
        loads.append(time.perf_counter() - begin)
        metrics = (await session.send("Performance.getMetrics"))["metrics"]
        scripts.append(next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration"))
    bars = await page.locator("[data-board] a").count()
    return statistics.median(scripts) * 1e3, statistics.median(loads) * 1e3, bars


async def fleet(page: Page) -> tuple[float, float, float]:
    """Seconds to draw the map, and milliseconds per frame while zooming: p50, p95."""
    begin = time.perf_counter()
    await page.goto("/console/3")
    await page.locator("#fleet-map canvas").wait_for()
    await page.locator("[data-note]", has_text="in view").wait_for()
    drawn = time.perf_counter() - begin
    times: list[float] = sorted(await page.evaluate(FRAMES))
    return drawn, statistics.median(times), times[int(len(times) * 0.95)]


async def measured(port: int, dsn: str) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = await browser.new_page(base_url=f"http://127.0.0.1:{port}", locale="en-GB")
        await page.add_init_script("try { localStorage.setItem('keyrack-tour:bench', 'done') } catch {}")
        await page.add_init_script(SEEN)
        await signed_in(page)
        found = await outcomes(page, dsn)
        table("screen times", "", "", "goal")
        p50, p95 = statistics.median(found), found[int(len(found) * 0.95)]
        words = "From the start of a worker's transaction to the frame with its outcome"
        row(words, f"p50 **{p50:.0f} ms**, p95 {p95:.0f} ms", "300 ms")
        script, whole, bars = await board(page)
        row(f"Board of 500 cars, 31 days, {bars:,} bars: all scripts of the page", f"**{script:.0f} ms**", "100 ms")
        row("The same until the page is loaded", f"{whole:.0f} ms", "")
        drawn, p50, p95 = await fleet(page)
        row(f"Map of {CARS - 1_100:,} cars, until it responds", f"{drawn:.1f} s", "")
        row("A frame of the map while zooming", f"p50 {p50:.1f} ms, p95 {p95:.0f} ms", "16.7 ms")
        await browser.close()


async def fill(dsn: str) -> None:
    raw = await asyncpg.connect(dsn)
    for statement in FILL.split(";\n"):
        await raw.execute(statement)
    await raw.close()


def main() -> None:
    """Print the table of benchmarks/results.md, "Console in the browser". Exits with 1 without Chromium."""
    if CHROMIUM is None:
        sys.exit(f"The benchmark 'screen' needs Chromium: {ABSENT}.")
    with database("screen") as dsn:
        asyncio.run(load(dsn, 3, CARS))
        asyncio.run(fill(dsn))
        port = free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env), workers(dsn, 1):
            asyncio.run(measured(port, dsn))
