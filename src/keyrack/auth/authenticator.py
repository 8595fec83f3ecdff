"""Authentication of callers by API key, password or token.

Verified results are cached, and a notification of the database clears them. So each process notices at once that a key
was revoked, a manager was disabled or a customer was taken from a manager. If a notification is lost, it notices after
KEYRACK_AUTH_CACHE_MAX_STALENESS_SECONDS at the latest.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import LiteralString
from uuid import UUID

from joserfc import jwt

from keyrack.api.grants import Grant, in_scope, load_grants
from keyrack.api.principals import AppUser, Caller, ClientCaller, Device, ManagerCaller, ManagerId, PrincipalKind, Scope
from keyrack.api.request_mode import RequestMode
from keyrack.auth import access_tokens, app_tokens, client_authentication, device_keys
from keyrack.auth.access_tokens import API_AUDIENCE, TOKEN_SECONDS, TYPE, AccessTokenClaims
from keyrack.auth.api_keys import EXPIRED, MISSING, KeyRefused, good_until
from keyrack.auth.cache import SingleFlightCache
from keyrack.auth.password_hashing import Passwords
from keyrack.auth.signing_keys import SigningKeys
from keyrack.auth.usernames import MANAGERS
from keyrack.core.addresses import address_form
from keyrack.core.error_codes import INVALID_DEVICE_KEY, INVALID_TOKEN, NO_MANAGER, NO_SCOPE
from keyrack.core.errors import Forbidden, NotFound, Unauthorized
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Row
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.notification_listener import NotificationListener
from keyrack.db.replication.primary_heartbeat import Heartbeat

MANAGER: LiteralString = """
select m.manager_id, m.username, m.sign_outs, c.customer_id, r.role, coalesce(r.is_limited, true) as is_limited,
  r.scope_id, r.groups, f.role is not null as needs_factor
from manager m left join manager_customer c using (manager_id) left join manager_role r using (customer_id, manager_id)
  left join factor_rule f on f.customer_id = c.customer_id and f.role = r.role
where m.subject = $1 and not m.is_disabled
"""
CREDENTIALS: LiteralString = """
select manager_id, subject, password_hash, sign_outs,
  exists (select from passkey p where p.manager_id = m.manager_id)
    or exists (select from totp t where t.manager_id = m.manager_id and t.confirmed_at is not null) as has_factor,
  exists (select from manager_role r join factor_rule using (customer_id, role) where r.manager_id = m.manager_id)
    as needs_factor
from manager m where manager_id = {id} and not is_disabled
""".replace("{id}", MANAGERS.key_by_form("$1"))


@dataclass(frozen=True, slots=True)
class AuthenticatedManager:
    """A manager who has just signed in, and how."""

    manager: int
    subject: UUID
    sign_outs: int  # before this sign-in
    amr: tuple[str, ...] = ("pwd",)  # the methods (RFC 8176)
    has_factor: bool = False  # a password alone is not enough
    needs_factor: bool = False  # a role in any customer requires one
    provider: int | None = None  # id of the provider that authenticated the manager, for single sign-on
    is_first_proof: bool = False  # the sign-in has proven the address, and removed every other sign-in method


class Authenticator:
    """Authentication in one process, with caches of keys, tokens and managers."""

    def __init__(self, db: Database, settings: Settings, vault: Encryption) -> None:
        self._db = db.reading()
        self._settings = settings
        self.vault = vault
        self.passwords = Passwords(settings.db_queue_max_waiting, settings.db_queue_timeout_seconds)
        self.listener: NotificationListener | None = None
        self.heartbeat: Heartbeat | None = None
        seconds = settings.auth_cache_max_staleness_seconds
        self._keys = SingleFlightCache[bytes, float](self._may_remember, seconds, "keys")
        self._tokens = SingleFlightCache[str, AccessTokenClaims](self._may_remember, seconds, "tokens")
        self._managers = SingleFlightCache[tuple[UUID, bool], ManagerCaller](self._may_remember, seconds, "managers")
        self._clients = SingleFlightCache[str, ClientCaller](self._may_remember, seconds, "clients")
        self._devices = SingleFlightCache[bytes, Device](self._may_remember, seconds, "devices")
        self._apps = SingleFlightCache[str, AppUser](self._may_remember, seconds, "apps")
        self._signing = SingleFlightCache[None, SigningKeys](self._may_remember, seconds, "signing-keys")
        self._loaded: SigningKeys | None = None  # the last loaded ones, valid or not

    def forget(self) -> None:
        """Clear all caches: keys, managers or customers have changed, or may have."""
        for memory in (self._keys, self._tokens, self._managers, self._clients, self._devices, self._apps):
            memory.forget()
        self._signing.forget()

    def check(self) -> int:
        """Check that the primary is confirmed.

        Outdated data must not authenticate a caller.         Returns and raises like `Heartbeat.check`.
        """
        return 0 if self.heartbeat is None else self.heartbeat.check()

    def assert_current(self, proven: int | None) -> None:
        """Raise `Unavailable` unless reads since that `check` are up to date."""
        if self.heartbeat is not None and proven is not None:
            self.heartbeat.assert_current(proven)

    async def check_key(self, key: str | None) -> float:
        """The expiry of an API key, in seconds since 1970.

        It is infinite for a key that does not expire. Raises `KeyRefused` unless this is the key of an active
        subscription.
        """
        header = f"{self._settings.brand}-API-Key"
        if not key:
            raise KeyRefused(header, MISSING)
        self.check()
        hashed = digest(key)
        until = await self._keys.get(hashed, lambda: good_until(self._db, hashed, header))
        if until is None or until <= time.time():
            raise KeyRefused(header, EXPIRED)
        return until

    async def caller(self, authorization: str | None) -> Caller:
        """The caller of a bearer token.

        Raises `Unauthorized`, and `NotFound` if no manager has the token's subject.
        """
        token = await self.token_of(authorization)
        if token.secret is not None:
            return await self._client(token)
        return await self.acting(token.subject, token.sign_outs, token.amr, token.issued)

    async def mode_of_token(self, authorization: str | None) -> RequestMode:
        """The mode of the client of a token, which may have expired. It is `spec` in all other cases."""
        try:
            text = _bearer(authorization)
            token = await self._tokens.get(text, lambda: self._decoded(text))
            if token is None or token.secret is None:
                return RequestMode.SPEC
            caller = await self._clients.get(token.jti, lambda: client_authentication.load_caller(self._db, token))
        except Exception:  # the request has an error already
            return RequestMode.SPEC
        return RequestMode.SPEC if caller is None else caller.mode

    async def until(self, key: str | None, authorization: str | None) -> float:
        """The earliest expiry of key, token and client, in seconds since 1970.

        A client that needs no key has no expiry of a key. Raises `Unauthorized`.
        """
        caller, token = await self.caller(authorization), await self.token_of(authorization)
        ends = min(caller.expires_at, token.expires)
        return ends if self.goes_without_key(caller, key) else min(await self.check_key(key), ends)

    def goes_without_key(self, caller: Caller, key: str | None) -> bool:
        """Whether the caller is a client that may call without a key.

        The request has no key, and a setting allows it.
        """
        return self._settings.clients_without_key and caller.kind is PrincipalKind.CLIENT and key is None

    async def device(self, key: str | None, scope: Scope) -> Device:
        """The device of a device key.

        Raises `Unauthorized`, and `Forbidden` if the key lacks the scope.
        """
        if not key:
            raise Unauthorized(INVALID_DEVICE_KEY)
        self.check()
        hashed = digest(key)
        device = await self._devices.get(hashed, lambda: device_keys.find(self._db, hashed))
        if device is None:
            raise Unauthorized(INVALID_DEVICE_KEY)
        if scope not in device.scopes:
            raise Forbidden(NO_SCOPE.format(scope=scope))
        return device

    async def app(self, authorization: str | None, *, looks_itself: bool) -> AppUser:
        """The user for whom an app calls, by its id token. Raises `Unauthorized`.

        The claims of a token are cached. No notification reports that a user has left the customer, so that is checked
        each time: here, unless the endpoint does so (`looks_itself`).
        """
        text = _bearer(authorization)
        self.check()
        app = await self._apps.get(text, lambda: self._app(text))
        if (
            app is None
            or app.expires_at <= time.time()
            or not (looks_itself or await app_tokens.user_exists(self._db, app))
        ):
            raise Unauthorized(INVALID_TOKEN)
        return app

    async def _app(self, text: str) -> AppUser | None:
        return await app_tokens.find(self._db, text, await self.signing_keys(), self._settings.public_url)

    async def _client(self, token: AccessTokenClaims) -> ClientCaller:
        """The client of a token.

        Raises `Unauthorized` if the client may not call, or not by this token any more.
        """
        self.check()
        caller = await self._clients.get(token.jti, lambda: client_authentication.load_caller(self._db, token))
        if caller is None or caller.expires_at <= time.time():
            raise Unauthorized(INVALID_TOKEN)
        return caller

    async def acting(self, subject: UUID, sign_outs: int, amr: tuple[str, ...], began: float) -> ManagerCaller:
        """The caller of a token or session: subject, earlier sign-outs, `amr`, time.

        Raises `NotFound` if no manager with the subject may act, and `Unauthorized` if the manager was signed out
        since.
        """
        self.check()
        has_factor = "mfa" in amr
        manager = await self._managers.get((subject, has_factor), lambda: self._acting(subject, has_factor=has_factor))
        if manager is None:
            raise NotFound(NO_MANAGER)
        if sign_outs < manager.sign_outs:
            raise Unauthorized(INVALID_TOKEN)
        return replace(manager, sign_outs=sign_outs, amr=amr, began=began)

    async def verified(self, username: str, password: str, address: str) -> AuthenticatedManager | None:
        """The manager with this user name and password, or None.

        A disabled manager counts as unknown. An unknown user and a wrong password take the same time. Raises
        `Unavailable` if too many log-ins from the address wait.
        """
        proven = self.check()
        row = await self._db.fetchrow(CREDENTIALS, address_form(username))
        password_hash = None if row is None else row["password_hash"]
        if not await self.passwords.verify(password, password_hash, ("address", address)) or row is None:
            return None
        self.assert_current(proven)
        return AuthenticatedManager(
            row["manager_id"], row["subject"], row["sign_outs"], has_factor=row["has_factor"],
            needs_factor=row["needs_factor"],
        )  # fmt: skip

    async def token(self, signed_in: AuthenticatedManager) -> str:
        """An access token of a manager."""
        return await self.sign(
            signed_in.subject, API_AUDIENCE, typ=TYPE, sign_outs=signed_in.sign_outs, amr=signed_in.amr
        )

    async def client_token(self, shown: client_authentication.AuthenticatedClient, scopes: Sequence[str]) -> str:
        """An access token of a client for these scopes (RFC 9068)."""
        return await self.sign(
            shown.subject, API_AUDIENCE, typ=TYPE, client_id=str(shown.subject), scope=" ".join(scopes),
            secret=shown.secret,
        )  # fmt: skip

    async def sign(self, subject: UUID, audience: str, *, typ: str = "JWT", **claims: str | int | Sequence[str]) -> str:
        """A signed token for `subject`, valid for `TOKEN_SECONDS`. Raises `CannotDecrypt`."""
        key = (await self.signing_keys()).newest
        now = int(time.time())
        return jwt.encode(
            {"alg": "RS256", "kid": key.kid, "typ": typ},
            {
                "iss": self._settings.public_url,
                "sub": str(subject),
                "aud": audience,
                "iat": now,
                "exp": now + TOKEN_SECONDS,
                "jti": secrets.token_hex(8),
                **claims,
            },
            key,
            algorithms=["RS256"],
        )

    async def signing_keys(self) -> SigningKeys:
        """The present signing keys. Raises `CannotDecrypt` if this node can decrypt none."""
        keys = await self._signing.get(None, self._load)
        assert keys is not None  # noqa: S101 - `_load` always answers
        return keys

    async def _load(self) -> SigningKeys:
        self._loaded = await SigningKeys.load(self._db, self.vault, self._loaded)
        return self._loaded

    async def token_of(self, authorization: str | None) -> AccessTokenClaims:
        """The claims of the token in an `Authorization` header. Raises `Unauthorized`.

        The principal may have lost its access since.
        """
        text = _bearer(authorization)
        token = await self._tokens.get(text, lambda: self._decoded(text))
        if token is None or token.expires <= time.time():
            raise Unauthorized(INVALID_TOKEN)
        return token

    async def _decoded(self, text: str) -> AccessTokenClaims | None:
        """The claims of a token, unless it was revoked."""
        token = access_tokens.decode_token(text, await self.signing_keys())
        if token is not None and await self._db.fetchval(access_tokens.IS_REVOKED, token.jti):
            return None
        return token

    async def _acting(self, subject: UUID, *, has_factor: bool) -> ManagerCaller | None:
        rows = await self._db.fetch(MANAGER, subject)
        if not rows:
            return None
        grants = {row["customer_id"]: _grant(row, has_factor=has_factor) for row in rows}
        grants.pop(None, None)  # the row of a manager without a customer
        return ManagerCaller(
            ManagerId(rows[0]["manager_id"]), rows[0]["username"], grants, sign_outs=rows[0]["sign_outs"]
        )

    def _may_remember(self) -> bool:
        return self.listener is not None and self.listener.is_fresh


def _bearer(authorization: str | None) -> str:
    """The bearer token in an `Authorization` header. Raises `Unauthorized`."""
    scheme, _, text = (authorization or "").partition(" ")
    token = text.lstrip(" ")  # one blank or more: RFC 9110, section 11.4
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized(INVALID_TOKEN)
    return token


def _grant(row: Row, *, has_factor: bool) -> Grant:
    """The grant of a manager in the customer of the row."""
    lacks_factor = row["needs_factor"] and not has_factor
    if row["scope_id"] is not None:
        return in_scope(row["role"], row["scope_id"], row["groups"], lacks_factor=lacks_factor)
    return load_grants(row["role"], is_limited=row["is_limited"], lacks_factor=lacks_factor)
