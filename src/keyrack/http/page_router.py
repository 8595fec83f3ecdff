"""Console pages: addresses, visits, and the operations of a visit.

A page is a function of a `Visit`. Before the page runs, the origin of a form is checked, and the visitor's session
unless the page is public. A page reads and writes only through the table of endpoints (`Visit.call`).
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

BELOW = "/console"  # the base path of the pages
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
    """The signed-in manager."""

    session: BrowserSession
    manager: ManagerCaller


@dataclass(slots=True)
class Visit:
    """One request for a page.

    `ids` are the parameters of its path. `query` and `form` have the values of each name.
    """

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
    step: str | None  # of the pending second factor
    challenged: str | None  # the cookie of the pending passkey challenge
    visitor: Person | None = None
    customer: int = 0
    response_headers: dict[str, str] = field(default_factory=dict[str, str])  # additional headers of the response

    @property
    def person(self) -> Person:
        """The signed-in manager.

        Raises `Unauthorized` on a public page, which reads no session.
        """
        if self.visitor is None:
            raise Unauthorized(SIGNED_OUT)
        return self.visitor

    @property
    def role(self) -> Role | None:
        """The role of the person in the customer of the address; None without a role."""
        return self.person.manager.grants[self.customer].role

    @property
    def is_limited(self) -> bool:
        """Whether the person is limited to groups in the customer of the address."""
        return self.person.manager.grant(self.customer).scope is not None

    def may(self, permission: str) -> bool:
        """Whether the person has the permission in the customer of the address.

        Raises `ValueError` for an unknown permission.
        """
        return self.person.manager.may(Permission(permission), self.customer)

    def require(self, permission: Permission) -> None:
        """Raises `NotPermitted` unless the person has the permission."""
        if not self.may(permission):
            raise forbidden_response(self.person.manager.grants, permission, self.customer)

    @property
    def is_partial(self) -> bool:
        """Whether only a part of the page is requested, to replace the current one."""
        return self.headers("HX-Request-Type") == "partial" and not self.headers("HX-History-Restore-Request")

    def query_value(self, name: str) -> str:
        """The value of the query parameter, "" without one. If it is repeated, the last value."""
        return self.query.get(name, [""])[-1]

    def form_value(self, name: str) -> str:
        """The value of the form field, "" without one. If it is repeated, the last value."""
        return self.form.get(name, [""])[-1].strip()

    async def call(self, method: str, path: str, *ids: object, **more: Any) -> InternalResponse:
        """Call an endpoint as the person, in the customer of the address.

        `query`, `body`, `if_match` and `key` are those of `InternalClient.call`. `$top` is limited to the maximum of
        the settings; `console.paged_fetch` reads further pages. Raises the endpoint's `Refusal`.
        """
        query: Mapping[str, str] = more.get("query") or {}
        if int(query.get("$top", "0")) > self.settings.odata_top:
            more["query"] = {**query, "$top": str(self.settings.odata_top)}
        impersonation = Impersonation(self.person.manager, self.customer, self.address, self.id)
        return await self.calls.call(impersonation, method, path, *ids, **more)

    def allow_connect(self, origin: str) -> None:
        """Allow the page's scripts to connect to another origin (CSP 3, section 6.1.2)."""
        self.response_headers[CSP] = f"{POLICY[CSP]}; connect-src 'self' {origin}"

    async def sign_in(self, username: str, password: str) -> AuthenticatedManager:
        """The manager with this user name and password. Raises `WrongCredentials`, `TooManyRequests`, `Unavailable`."""
        services = self.server.services
        return await sign_in(
            services.system_db, services.authenticator, self.settings, username, password, self.address
        )

    async def begin_session(self, signed_in: AuthenticatedManager, time_zone: str | None) -> None:
        """Begin a session for an authenticated manager."""
        agent = self.headers("User-Agent") or ""
        secret = await sessions.create_session(
            self.server.services.system_db, signed_in, self.address, agent, time_zone, self.settings
        )
        self.response_headers["Set-Cookie"] = self.server.sessions.cookie(secret)

    async def begin_second_factor(self, signed_in: AuthenticatedManager, time_zone: str | None) -> None:
        """Begin the wait for a second factor. The browser is not signed in yet."""
        secret = await login_challenges.begin(self.server.services.system_db, signed_in, time_zone, self.settings)
        self.response_headers["Set-Cookie"] = self.server.sessions.step_cookie(secret)

    async def pending_login(self) -> LoginChallenge | None:
        """The pending sign-in that waits for a second factor, or None."""
        return await login_challenges.find(self.server.services.system_db, self.step) if self.step else None

    async def verify_code(self, given: str) -> tuple[AuthenticatedManager, str | None] | None:
        """The manager with this code, and the browser's time zone; None if no sign-in is pending.

        Raises as `sign_in` does.
        """
        services = self.server.services
        if not self.step:
            return None
        return await show_code(
            services.system_db, services.authenticator, self.settings, self.step, given, self.address
        )

    @property
    def passkey_host(self) -> str | None:
        """The host name for passkeys; None if the public address allows none."""
        return passkeys.MANAGERS.host(self.settings)

    async def challenge(self) -> dict[str, Any] | None:
        """The options for signing in with a passkey; None if the public address allows none.

        Raises `TooManyRequests`.
        """
        services = self.server.services
        options_and_cookie = await challenge_passkey(
            services.system_db, services.authenticator.vault, self.settings, self.challenged, self.address
        )
        if options_and_cookie is None:
            return None
        self.response_headers["Set-Cookie"] = self.server.sessions.challenge_cookie(options_and_cookie[1])
        return options_and_cookie[0]

    async def verify_passkey(self, credential: str) -> AuthenticatedManager:
        """The manager with this passkey. Raises as `sign_in` does."""
        services = self.server.services
        return await show_passkey(
            services.system_db, services.authenticator.vault, self.settings, self.challenged, credential, self.address
        )

    async def strengthen(self, *amr: str) -> None:
        """Record in the session that the manager has just used a second factor."""
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
    is_public: bool = False  # visible without a session
    permission: Permission | None = None  # the required permission; None for pages about the person, without a customer
    shows_own_rows: bool = False  # without the permission it shows the person's own rows: its endpoints decide
    has_secret: bool = False  # it contains a secret, so it is never compressed


class ConsolePages:
    """The pages of one module."""

    def __init__(self) -> None:
        self.rows: list[ConsolePage] = []

    def get(self, path: str, **row: Any) -> Callable[[Run], Run]:
        """A page for reading. `ConsolePage` has the options of a row."""
        return self._add("GET", path, row)

    def post(self, path: str, **row: Any) -> Callable[[Run], Run]:
        """The action of a form."""
        return self._add("POST", path, row)

    def _add(self, method: str, path: str, row: dict[str, Any]) -> Callable[[Run], Run]:
        def add(run: Run) -> Run:
            self.rows.append(ConsolePage(method, path, run, **row))
            return run

        return add


@dataclass(frozen=True, slots=True)
class Site:
    """All pages, and the page for an error."""

    pages: tuple[ConsolePage, ...]
    error_page: Callable[[Visit, Refusal], Awaitable[Response]]


def first_customer(person: Person) -> int:
    """The first customer to show: preferably one in which the person has a role.

    Raises `ValueError` if the person may act for none.
    """
    grants = person.manager.grants
    return min(grants, key=lambda customer: (not grants[customer].permissions, customer))


def customer_of(person: Person, text: str) -> int:
    """The customer in an address. Raises `NotFound`, also for other managers' customers."""
    customer = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    person.manager.check(customer)
    return customer
