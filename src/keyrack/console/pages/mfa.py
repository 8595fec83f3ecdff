"""The account's second factors, and for owners the roles that need one."""

from __future__ import annotations

import json

import segno

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission, Role
from keyrack.console.forbidden import NAMES
from keyrack.console.pages.settings import SECTION
from keyrack.console.rendering import base, gettext, page, redirect, translate_error
from keyrack.core.errors import Refusal, Unauthorized
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

OF_CODE = ("otp", "mfa")  # methods that a code adds to the sign-in (RFC 8176)
SIGN_IN_AGAIN = "sign-in-again"


@pages.get("/{customer}/settings/factors")
async def factors(visit: Visit) -> Response:
    return await _factors(visit)


async def _factors(visit: Visit, refusal: Refusal | None = None) -> Response:
    may_rule = visit.may(Permission.MANAGERS_WRITE)
    factors = (await visit.call("GET", "/me/factors")).json
    passkeys = (await visit.call("GET", "/me/passkeys", query={"$orderby": "createdAt"})).json
    rules = (await visit.call("GET", "/factor-rules")).json["roles"] if may_rule else None
    return await page(
        visit, "factors.html", status=refusal.status if refusal else 200, section=SECTION, known=factors, names=NAMES,
        passkeys=passkeys, rules=rules, host=visit.passkey_host, saved=visit.query_value("saved"),
        is_needed=visit.person.manager.grants[visit.customer].needs_factor, has_shown="mfa" in visit.person.manager.amr,
        wrong=translate_error(visit, refusal.reason) if refusal else "",
        must_sign_in=bool(refusal and refusal.reason.code == SIGN_IN_AGAIN),
    )  # fmt: skip


@pages.post("/{customer}/settings/factors/passkeys")
async def add_passkey(visit: Visit) -> Response:
    name = visit.form_value("name") or gettext(visit, "Passkey")
    try:
        body = {"name": name, "credential": _credential(visit)}
        made = (await visit.call("PUT", "/me/passkeys", body=body)).json
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _factors(visit, refusal)
    await visit.strengthen(made["amr"], "user", "mfa")
    return _saved(visit, "passkey")


@pages.post("/{customer}/settings/factors/passkeys/remove")
async def remove_passkey(visit: Visit) -> Response:
    return await _done(visit, "removed", "DELETE", "/me/passkeys/{passkeyId}", visit.form_value("passkey"))


@pages.post("/{customer}/settings/factors/app", has_secret=True)
async def begin_app(visit: Visit) -> Response:
    try:
        made = (await visit.call("POST", "/me/totp")).json
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _factors(visit, refusal)
    return await _app(visit, made["secret"], made["uri"])


async def _app(visit: Visit, secret: str, uri: str, wrong: str = "", status: int = 200) -> Response:
    qr = segno.make(uri, micro=False).svg_data_uri(scale=5, border=4, light="#fff", dark="#000")
    return await page(
        visit, "factors_app.html", status=status, section=SECTION, secret=secret, uri=uri, qr=qr, wrong=wrong
    )


@pages.post("/{customer}/settings/factors/app/confirm", has_secret=True)
async def confirm_app(visit: Visit) -> Response:
    try:
        await visit.call("PUT", "/me/totp", body={"code": visit.form_value("code")})
    except Unauthorized:
        raise
    except Refusal as refusal:
        secret, uri = visit.form_value("secret"), visit.form_value("uri")
        if refusal.reason.code not in ("wrong-code", "invalid-members") or not uri.startswith("otpauth://"):
            return await _factors(visit, refusal)
        return await _app(visit, secret, uri, gettext(visit, "The code is wrong."), refusal.status)
    await visit.strengthen(*OF_CODE)
    return _saved(visit, "app")


@pages.post("/{customer}/settings/factors/app/remove")
async def remove_app(visit: Visit) -> Response:
    return await _done(visit, "removed", "DELETE", "/me/totp")


@pages.post("/{customer}/settings/factors/recovery", has_secret=True)
async def renew_recovery(visit: Visit) -> Response:
    try:
        made = (await visit.call("POST", "/me/recovery-codes")).json
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _factors(visit, refusal)
    return await page(visit, "factors_recovery.html", section=SECTION, codes=made["codes"])


@pages.post("/{customer}/settings/factors/rules", permission=Permission.MANAGERS_WRITE)
async def set_rules(visit: Visit) -> Response:
    role_names = {str(role) for role in Role}
    roles = [role for role in visit.form.get("role", []) if role in role_names]
    return await _done(visit, "rules", "PUT", "/factor-rules", body={"roles": roles})


async def _done(visit: Visit, saved: str, method: str, path: str, *ids: str, body: object = None) -> Response:
    try:
        await visit.call(method, path, *ids, body=body)
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _factors(visit, refusal)
    return _saved(visit, saved)


def _saved(visit: Visit, saved: str) -> Response:
    return redirect(f"{base(visit)}/settings/factors?saved={saved}")


def _credential(visit: Visit) -> object:
    try:
        return json.loads(visit.form_value("credential"))
    except ValueError:
        return {}
