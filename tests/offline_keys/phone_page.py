"""The app of a driver in a page.

It is reference/phone over Web Bluetooth, under a strict Content-Security-Policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Page

from tests.offline_keys.phone_world import b64

CLAIMS = b64(b'{"sub": "somebody"}')
TOKEN = f"e30.{CLAIMS}."
VIOLATIONS = """document.addEventListener('securitypolicyviolation', (event) => {
  reportViolation(`${event.effectiveDirective} blocks ${event.blockedURI} of ${event.sourceFile}`);
});"""
APP = """async ([path, productId, idToken, seconds]) => {
  const { start } = await import('/phone/example.js');
  const { WebBluetooth } = await import('/phone/bluetooth.js');
  const { namesAround } = await import('/phone/advertisements.js');
  const { openPhone } = await import('/phone/indexeddb.js');
  const { Phone } = await import('/phone/phone.js');
  const { Server } = await import('/phone/server.js');
  const token = async () => idToken;
  const base = `${location.origin}${path}/v3`;
  const phone = await start(base, token).catch(async () => {
    const { device, store } = await openPhone(); // without a network
    return new Phone(device, store, new Server(base, token));
  });
  const { boxes } = await phone.store.state();
  const names = (await Promise.all(boxes.map(({ names }) => namesAround(names, seconds)))).flat();
  const transport = new WebBluetooth();
  const app = { box: null, unknown: null };
  const find = async (those) => {
    app.box = await transport.find(those);
    return app.box && app.box.name;
  };
  const outcome = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (error.name === 'OutcomeUnknown') app.unknown = error;
      return [error.name, error.sent ?? error.cause?.sent ?? error.code ?? null];
    }
  };
  const buttons = {
    find: () => find(names),
    findAny: () => find([]),
    open: async () => {
      await app.box.connect();
      const conversation = phone.at(app.box.exchange, productId);
      const { key } = await conversation.open();
      await conversation.fetchLog();
      return key.carId;
    },
    close: async () => {
      await phone.at(app.box.exchange, productId).close();
      await app.box.close();
      return app.box.isConnected;
    },
    look: async () => {
      await app.box.connect();
      return phone.at(app.box.exchange, productId).hasDoneNothing(app.unknown);
    },
    home: async () => {
      await phone.meetServer();
      return (await phone.store.state()).entries.length;
    },
  };
  for (const [name, work] of Object.entries(buttons)) {
    const button = document.createElement('button');
    button.id = name;
    button.textContent = name;
    button.onclick = () => { globalThis.outcome = outcome(work); };
    document.body.append(button);
  }
}"""


@dataclass(kw_only=True)
class App:
    """A page with the app. Its buttons are the actions of a driver."""

    page: Page
    path: str  # of the bridge, where the app's server is
    token: str = TOKEN
    violations: list[str] = field(default_factory=list[str])  # of the Content-Security-Policy

    def __post_init__(self) -> None:
        self.page.expose_function("reportViolation", lambda text: self.violations.append(text))
        self.page.add_init_script(VIOLATIONS)

    def load(self, product: int, now: int) -> None:
        """Load the page, and start the app. It searches the names around that time."""
        self.page.goto("/strict")
        self.page.evaluate(APP, [self.path, product, self.token, now])

    def tap(self, button: str) -> Any:
        """The outcome of a button: a value, or an error."""
        self.page.click(f"#{button}")
        return self.page.evaluate("globalThis.outcome")

    def check_violations(self) -> None:
        """Check that the page has not violated its policy."""
        self.page.evaluate("() => new Promise((done) => setTimeout(done))")  # a violation may be reported late
        assert self.violations == []
