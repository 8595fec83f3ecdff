"""The response that signs a driver in."""

from __future__ import annotations

from typing import Any, LiteralString

from keyrack.api.exchange import Request, Response, answer, browser_of
from keyrack.auth.sso.providers import Provider
from keyrack.core.errors import Forbidden
from keyrack.core.user_agents import device_name
from keyrack.db.connection import Row, Statements
from keyrack.drivers import sessions
from keyrack.drivers.accounts import NO_ACCESS
from keyrack.drivers.cookies import DriverCookies
from keyrack.drivers.sessions import AccountVersion

NO_STORE = {"Cache-Control": "no-store"}
PERSON: LiteralString = "select user_id, first_name, last_name, email_address from person where user_id = $1"


async def sign_in(
    statements: Statements,
    request: Request,
    cookies: DriverCookies,
    user: int,
    amr: tuple[str, ...],
    version: AccountVersion | None = None,
    provider: Provider | None = None,
) -> Response:
    """Begin a session in place of the browser's earlier one. `provider` has signed the driver in.

    `version` is that of the verified credentials, unless the caller's transaction has locked the account. Runs in the
    caller's transaction. Raises `Forbidden` if the session would see no customer, and after a reset of the account.
    """
    browser = browser_of(request)
    secret = await sessions.begin(statements, user, device_name(browser.agent), amr, version, provider)
    driver = await sessions.find(statements, secret)
    if driver is None:
        raise Forbidden(NO_ACCESS)
    if browser.session is not None:
        await sessions.replace(statements, browser.session, driver)
    row = await statements.fetchrow(PERSON, user)
    assert row is not None  # noqa: S101 - the session is the person's
    return answer({"user": shown_person(row)}, 201, {**NO_STORE, "Set-Cookie": cookies.cookie(secret)})


def shown_person(row: Row) -> dict[str, Any]:
    """The driver, as the app shows it to the driver."""
    return {
        "id": row["user_id"], "firstName": row["first_name"], "lastName": row["last_name"],
        "emailAddress": row["email_address"],
    }  # fmt: skip
