"""Sign-in by a provider: the request, and the callback with a code.

This is the authorization code flow with PKCE (OpenID Connect Core, section 3.1). No database connection and no database
lock is held during a request to a provider.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from keyrack.auth.sso import id_tokens, login_states, providers
from keyrack.auth.sso.discovery import Directory, Metadata
from keyrack.auth.sso.errors import NotSignedIn, ProviderTrouble
from keyrack.auth.sso.id_tokens import ProviderAccount
from keyrack.auth.sso.login_states import LoginStart, PendingLogin
from keyrack.auth.sso.providers import Provider
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.encryption.cipher import Encryption

if TYPE_CHECKING:
    from keyrack.auth.sso.provider_client import Fetcher

CALLBACK = "/console/sign-in/callback"  # follows the public address
SIGNED_OUT = "/console/sign-in?out"  # likewise
LONGEST = 4_096  # characters of a parameter that a provider returns
# Decisions of people and of providers (RFC 6749, section 4.1.2.1; OpenID Connect Core, section 3.1.2.6)
DECLINED = ("access_denied", "login_required", "interaction_required", "consent_required", "account_selection_required")


@dataclass(frozen=True, slots=True)
class SignInAudience:
    """The people that a flow signs in. A flow of one audience cannot be finished by another."""

    purpose: str  # for which the browser's cookie is sealed
    callback: Callable[[Settings], str]  # the redirect URI, registered at the provider, which compares it exactly


MANAGERS = SignInAudience("single sign-on", lambda settings: settings.public_url.rstrip("/") + CALLBACK)


@dataclass(frozen=True, slots=True)
class SignInResult:
    """A finished sign-in at a provider: the account and the purpose."""

    provider: Provider
    account: ProviderAccount
    start: LoginStart


class SignOn:
    """Single sign-on in one process. It contacts no provider before the first sign-in."""

    def __init__(self, db: Database, settings: Settings, vault: Encryption) -> None:
        self._db = db
        self._settings = settings
        self._vault = vault
        self._open_fetcher: Fetcher | None = None
        self._directory = Directory(settings, self._document)

    async def close(self) -> None:
        if self._open_fetcher is not None:
            await self._open_fetcher.close()

    async def begin(self, name: str, cookie: str | None, start: LoginStart) -> tuple[str, str]:
        """The address to send the browser to, and its new cookie.

        Raises `NotSignedIn`, `CannotDecrypt`.
        """
        return await self.begin_at(await providers.named(self._db, name), cookie, start, MANAGERS)

    async def begin_at(
        self, provider: Provider | None, cookie: str | None, start: LoginStart, audience: SignInAudience
    ) -> tuple[str, str]:
        """Begin at this provider, as `begin` does, for an audience. Raises `NotSignedIn`, `CannotDecrypt`."""
        if provider is None:
            raise ProviderTrouble("there is no such provider")
        metadata = await self._directory.metadata(provider)
        pending = PendingLogin(provider.id, start)
        query = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": audience.callback(self._settings),
            "scope": "openid email",
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": pending.challenge,
            "code_challenge_method": "S256",
        }
        if start.manager is not None:  # a session alone connects no account
            query["prompt"] = "login"
        cookie = await login_states.add_to_cookie(self._vault, audience.purpose, cookie, pending)
        return _with(metadata.authorization, query), cookie

    async def finish(
        self, query: Mapping[str, Sequence[str]], cookie: str | None, audience: SignInAudience = MANAGERS
    ) -> SignInResult:
        """The account that comes back with the callback's query. Raises `NotSignedIn`.

        The pending sign-in is used up before the code is redeemed. So each pending sign-in redeems at most one code.
        """
        pending = await login_states.find(self._vault, audience.purpose, cookie, _one(query, "state"))
        provider = await providers.of_id(self._db, pending.provider)
        if provider is None:
            raise ProviderTrouble("there is no such provider any more")
        metadata = await self._directory.metadata(provider)
        _check_issuer(query, provider, metadata)
        code = _code(query)
        await login_states.use(self._db, pending)
        answer = await self._redeem(provider, metadata, code, pending.verifier, audience)
        account = await id_tokens.verified(
            answer.get("id_token"),
            provider,
            pending.nonce,
            time.time(),
            self._settings.provider_skew,
            lambda kid: self._directory.keys(provider, kid),
        )
        return SignInResult(provider, account, pending.start)

    async def end(self, provider: int) -> str | None:
        """The address to sign out at the provider, or None.

        None if the provider has no such address, or cannot be reached. See OpenID Connect RP-Initiated Logout, section
        2.
        """
        sso_provider = await providers.of_id(self._db, provider)
        try:
            address = sso_provider and (await self._directory.metadata(sso_provider)).end_session
        except ProviderTrouble:  # the local sign-out is enough
            return None
        if sso_provider is None or not address:
            return None
        return _with(address, {"client_id": sso_provider.client_id, "post_logout_redirect_uri": self._at(SIGNED_OUT)})

    async def examine(self, provider: Provider) -> Metadata:
        """The metadata of a provider, with a check of its keys. Raises `ProviderTrouble`."""
        return await self._directory.metadata(provider)

    async def _redeem(
        self, provider: Provider, metadata: Metadata, code: str, verifier: str, audience: SignInAudience
    ) -> dict[str, Any]:
        client = provider.client_id, await providers.secret(self._db, self._vault, provider)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": audience.callback(self._settings),
            "code_verifier": verifier,
        }
        return await self._fetcher().token(metadata.token, form, client, in_body=metadata.in_body)

    async def _document(self, address: str) -> dict[str, Any]:
        return await self._fetcher().document(address)

    def _fetcher(self) -> Fetcher:
        if self._open_fetcher is None:
            from keyrack.auth.sso.provider_client import Fetcher

            self._open_fetcher = Fetcher(self._settings)
        return self._open_fetcher

    def _at(self, path: str) -> str:
        return self._settings.public_url.rstrip("/") + path


def _with(address: str, parameters: Mapping[str, str]) -> str:
    """An address with these parameters after its own (RFC 6749, section 3.1)."""
    return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}"


def _one(query: Mapping[str, Sequence[str]], name: str) -> str:
    """The value of a parameter, or "".

    A repeated parameter counts as missing (RFC 6749, section 3.1), and so does a value that is too long.
    """
    values = query.get(name, [""])
    return values[0] if len(values) == 1 and len(values[0]) <= LONGEST else ""


def _check_issuer(query: Mapping[str, Sequence[str]], provider: Provider, metadata: Metadata) -> None:
    """Check the issuer of an answer (RFC 9207, section 2.4)."""
    if ("iss" in query or metadata.tells_issuer) and _one(query, "iss") != provider.issuer:
        raise ProviderTrouble("iss: the answer does not name the provider that was asked")


def _code(query: Mapping[str, Sequence[str]]) -> str:
    if "error" in query:
        error = _one(query, "error")
        message = f"the provider answered {error[:100]!r}: {_one(query, 'error_description')[:200]!r}"
        raise NotSignedIn("declined", message) if error in DECLINED else ProviderTrouble(message)
    if not (code := _one(query, "code")):
        raise ProviderTrouble("the provider answered without a code")
    return code
