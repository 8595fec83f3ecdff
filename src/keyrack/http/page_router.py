"""In charge of pages: what an address of the console is, who visits it, and what the visit may do.

A page is a function of a `Visit`. Who visits, and that a form was sent by a page of ours, is checked here before it is
asked; it reads and writes through the endpoints' table alone (`Visit.call`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.grants import FactorNeeded as FactorNeeded
from keyrack.api.grants import NotPermitted as NotPermitted
from keyrack.api.grants import forbidden_response
from keyrack.api.permissions import Permission, Role
from keyrack.api.principals import ManagerCaller
from keyrack.auth import login_challenges, passkeys, sessions
from keyrack.auth.authenticator import AuthenticatedManager
from keyrack.auth.login import challenge_passkey, show_code, show_passkey, sign_in
from keyrack.auth.login_challenges import LoginChallenge
from keyrack.auth.sessions import BrowserSession
from keyrack.core.error_codes import SIGNED_OUT
from keyrack.core.errors import Refusal, Unauthorized
from keyrack.core.settings import Settings
from keyrack.http.in_process_client import Impersonation, InternalClient, InternalResponse
from keyrack.http.server_process import ServerProcess

BELOW = "/console"  # where the pages stand
CSP = "Content-Security-Policy"
POLICY = {
    CSP: (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "form-action 'self'"
    ),
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
FRESH = {"Cache-Control": "no-store", "Vary": "HX-Request, HX-Request-Type, HX-History-Restore-Request"}


@dataclass(frozen=True, slots=True)
class Person:
    """Who is signed in."""

    session: BrowserSession
    manager: ManagerCaller


@dataclass(slots=True)
class Visit:
    """One request for a page. `ids` are the parameters of its path, `query` and `form` have each name's values."""

    method: str
    path: str
    ids: Mapping[str, str]
    query_string: str
    query: Mapping[str, list[str]]
    form: Mapping[str, list[str]]
    headers: Callable[[str], str | None]
    address: str
    id: str
    settings: Settings
    calls: InternalClient
    server: ServerProcess
    secret: str | None  # of the browser's session
    step: str | None  # of the second factor that the browser waits for
    challenged: str | None  # the cookie of the passkey that it waits for
    visitor: Person | None = None
    customer: int = 0
    response_headers: dict[str, str] = field(default_factory=dict[str, str])  # headers that the answer gets as well

    @property
    def person(self) -> Person:
        """Raises `Unauthorized` on a page that anybody may see."""
        if self.visitor is None:
            raise Unauthorized(SIGNED_OUT)
        return self.visitor

    @property
    def role(self) -> Role | None:
        """What the person is in the customer of the address; None without a role."""
        return self.person.manager.grants[self.customer].role

    @property
    def is_limited(self) -> bool:
        """Whether the person is limited to groups in the customer of the address."""
        return self.person.manager.grant(self.customer).scope is not None

    def may(self, permission: str) -> bool:
        """Whether the person has the permission in the customer of the address. Raises `ValueError` where there is no
        such permission."""
        return self.person.manager.may(Permission(permission), self.customer)

    def require(self, permission: Permission) -> None:
        """Raises `NotPermitted` unless the person has the permission."""
        if not self.may(permission):
            raise forbidden_response(self.person.manager.grants, permission, self.customer)

    @property
    def is_partial(self) -> bool:
        """Whether a part of the page is wanted, in place of what is there."""
        return self.headers("HX-Request-Type") == "partial" and not self.headers("HX-History-Restore-Request")

    def query_value(self, name: str) -> str:
        """The value of the address's query, "" without one; of several the last."""
        return self.query.get(name, [""])[-1]

    def form_value(self, name: str) -> str:
        """The value of the form's field, "" without one; of several the last."""
        return self.form.get(name, [""])[-1].strip()

    async def call(self, method: str, path: str, *ids: object, **more: Any) -> InternalResponse:
        """Ask a row of the endpoints' table as the person, in the customer of the address: `query`, `body`, `if_match`
        and `key` as `InternalClient.call` takes them. Who asks for more rows than the settings allow gets as many as
        they do; `console.paged_fetch` asks for the others. Raises the row's `Refusal`."""
        query: Mapping[str, str] = more.get("query") or {}
        if int(query.get("$top", "0")) > self.settings.odata_top:
            more["query"] = {**query, "$top": str(self.settings.odata_top)}
        impersonation = Impersonation(self.person.manager, self.customer, self.address, self.id)
        return await self.calls.call(impersonation, method, path, *ids, **more)

    def allow_connect(self, origin: str) -> None:
        """Let the scripts of this page ask one other origin as well (CSP 3, section 6.1.2)."""
        self.response_headers[CSP] = f"{POLICY[CSP]}; connect-src 'self' {origin}"

    async def sign_in(self, username: str, password: str) -> AuthenticatedManager:
        """Whose password this is. Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`."""
        services = self.server.services
        return await sign_in(
            services.system_db, services.authenticator, self.settings, username, password, self.address
        )

    async def begin_session(self, signed_in: AuthenticatedManager, time_zone: str | None) -> None:
        """Begin a session of somebody who has shown to be it, however that was."""
        agent = self.headers("User-Agent") or ""
        secret = await sessions.create_session(
            self.server.services.system_db, signed_in, self.address, agent, time_zone, self.settings
        )
        self.response_headers["Set-Cookie"] = self.server.sessions.cookie(secret)

    async def begin_second_factor(self, signed_in: AuthenticatedManager, time_zone: str | None) -> None:
        """Have the browser wait for a second factor: it is signed in to nothing yet."""
        secret = await login_challenges.begin(self.server.services.system_db, signed_in, time_zone, self.settings)
        self.response_headers["Set-Cookie"] = self.server.sessions.step_cookie(secret)

    async def pending_login(self) -> LoginChallenge | None:
        """Whose second factor the browser waits for."""
        return await login_challenges.find(self.server.services.system_db, self.step) if self.step else None

    async def verify_code(self, given: str) -> tuple[AuthenticatedManager, str | None] | None:
        """Whose code this is, and the browser's time zone; None: the browser waits for nothing any more. Raises as
        `sign_in` does."""
        services = self.server.services
        if not self.step:
            return None
        return await show_code(
            services.system_db, services.authenticator, self.settings, self.step, given, self.address
        )

    @property
    def passkey_host(self) -> str | None:
        """The host name that passkeys are bound to; None: there are none at this address."""
        return passkeys.host(self.settings)

    async def challenge(self) -> dict[str, Any] | None:
        """The options for a passkey to sign in with; None: there are no passkeys at this address. Raises
        `TooManyRequests`."""
        services = self.server.services
        options_and_cookie = await challenge_passkey(
            services.system_db, services.authenticator.vault, self.settings, self.challenged, self.address
        )
        if options_and_cookie is None:
            return None
        self.response_headers["Set-Cookie"] = self.server.sessions.challenge_cookie(options_and_cookie[1])
        return options_and_cookie[0]

    async def verify_passkey(self, credential: str) -> AuthenticatedManager:
        """Whose passkey this is. Raises as `sign_in` does."""
        services = self.server.services
        return await show_passkey(
            services.system_db, services.authenticator.vault, self.settings, self.challenged, credential, self.address
        )

    async def strengthen(self, *amr: str) -> None:
        """The session's manager has shown a second factor just now."""
        await sessions.strengthen(self.server.services.system_db, self.secret or "", amr)

    async def sign_out(self) -> None:
        """End the session of the browser."""
        if self.secret:
            await sessions.end(self.server.services.system_db, self.secret)
        self.response_headers["Set-Cookie"] = self.server.sessions.no_cookie()


Run = Callable[[Visit], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """One row of the console's table."""

    method: str
    path: str  # below the console
    run: Run
    is_public: bool = False  # anybody may see it
    permission: Permission | None = None  # what it wants; none: it is about the person, and of no customer
    shows_own_rows: bool = (
        False  # without the permission it shows what the person asked for itself: its endpoints decide
    )
    has_secret: bool = False  # it shows a secret, so it is never compressed


class ConsolePages:
    """The pages of one module."""

    def __init__(self) -> None:
        self.rows: list[ConsolePage] = []

    def get(self, path: str, **row: Any) -> Callable[[Run], Run]:
        """A page to look at; see `ConsolePage` for what a row may say."""
        return self._add("GET", path, row)

    def post(self, path: str, **row: Any) -> Callable[[Run], Run]:
        """What a form of a page does."""
        return self._add("POST", path, row)

    def _add(self, method: str, path: str, row: dict[str, Any]) -> Callable[[Run], Run]:
        def add(run: Run) -> Run:
            self.rows.append(ConsolePage(method, path, run, **row))
            return run

        return add


@dataclass(frozen=True, slots=True)
class Site:
    """All pages, and how a refusal looks to who visits one."""

    pages: tuple[ConsolePage, ...]
    error_page: Callable[[Visit, Refusal], Awaitable[Response]]


def first_customer(person: Person) -> int:
    """The customer whose pages come first: one in which the person has a role, if there is any. Raises `ValueError` for
    who acts for none."""
    grants = person.manager.grants
    return min(grants, key=lambda customer: (not grants[customer].permissions, customer))


def customer_of(person: Person, text: str) -> int:
    """The customer of an address. Raises `NotFound` alike for what is nobody's and somebody else's."""
    customer = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    person.manager.check(customer)
    return customer
