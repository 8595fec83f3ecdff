"""Metadata and keys of providers (OpenID Connect Discovery 1.0).

The metadata add no trust: issuer, client and algorithms are the operator's (`providers`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey

from keyrack.auth.sso.errors import ProviderTrouble
from keyrack.auth.sso.provider_urls import allows
from keyrack.auth.sso.providers import Provider
from keyrack.core.settings import Settings

Key = RSAKey | ECKey | OKPKey
MOST_KEYS = 100
AGAIN = 5.0  # seconds after a failed lookup in which callers get its error
LOOKS, LOOKS_SECONDS = 5, 300.0  # how often keys are reloaded for tokens of unknown keys, in so many seconds


Fetch = Callable[[str], Awaitable[dict[str, Any]]]  # the JSON object at an address


@dataclass(frozen=True, slots=True)
class Metadata:
    """The endpoints of a provider."""

    authorization: str
    token: str
    keys: str
    end_session: str | None
    tells_issuer: bool  # in the authorization response (RFC 9207)
    in_body: bool  # the client sends its secret in the body


def read(document: dict[str, Any], provider: Provider, settings: Settings) -> Metadata:
    """The metadata of a discovery document.

    Raises `ProviderTrouble` if it is another issuer's, lacks a field, has a forbidden address, or supports no client
    authentication of Keyrack.
    """
    if document.get("issuer") != provider.issuer:
        raise ProviderTrouble(f"the discovery document is of {str(document.get('issuer'))[:200]!r}, not of the issuer")

    def where(name: str) -> str:
        address = document.get(name)
        if not isinstance(address, str) or not allows(address, settings):
            raise ProviderTrouble(f"the discovery document has no https address as {name}")
        return address

    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    if not isinstance(methods, list) or not {"client_secret_basic", "client_secret_post"}.intersection(
        str(method) for method in cast("list[object]", methods)
    ):
        raise ProviderTrouble("the provider supports neither client_secret_basic nor client_secret_post")
    return Metadata(
        where("authorization_endpoint"),
        where("token_endpoint"),
        where("jwks_uri"),
        where("end_session_endpoint") if document.get("end_session_endpoint") else None,
        document.get("authorization_response_iss_parameter_supported") is True,
        "client_secret_basic" not in methods,
    )


def keys_of(document: dict[str, Any]) -> list[Key]:
    """The keys of a JSON Web Key Set that may verify signatures.

    Other keys, keys of an unknown type, and keys beyond `MOST_KEYS` are left out (RFC 7517, section 5). Raises
    `ProviderTrouble` if none is left.
    """
    given = document.get("keys")
    keys: list[Key] = []
    for jwk in cast("list[Any]", given)[:MOST_KEYS] if isinstance(given, list) else []:
        try:
            key = KeySet.import_key_set({"keys": [jwk]}).keys[0]
        except (JoseError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if isinstance(key, (RSAKey, ECKey, OKPKey)) and jwk.get("use", "sig") == "sig":
            keys.append(key)
    if not keys:
        raise ProviderTrouble("the provider has no key that could verify a token")
    return keys


@dataclass(slots=True)
class _CachedProvider:
    """The cached metadata and keys of one provider."""

    metadata: Metadata
    keys: list[Key]
    loaded_at: float
    reload_times: deque[float] = field(default_factory=lambda: deque[float](maxlen=LOOKS))


class Directory:
    """The metadata of providers, cached in one process.

    Concurrent callers share a lookup. It is repeated after `provider_metadata_ttl_seconds`.
    """

    def __init__(self, settings: Settings, fetch: Fetch) -> None:
        self._settings = settings
        self._fetch = fetch
        self._cache: dict[Provider, _CachedProvider] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._failed: dict[Provider, tuple[float, ProviderTrouble]] = {}

    async def metadata(self, provider: Provider) -> Metadata:
        """The endpoints of a provider. Raises `ProviderTrouble`."""
        return (await self._get(provider)).metadata

    async def keys(self, provider: Provider, kid: str | None) -> list[Key]:
        """The keys of a provider for tokens with this `kid`; empty if it is unknown.

        An unknown `kid` reloads the keys, at most `LOOKS` times in `LOOKS_SECONDS`. Raises `ProviderTrouble`.
        """
        cached = await self._get(provider)
        if not (keys := _matching(cached.keys, kid)):
            async with self._lock(provider):
                if not _matching(cached.keys, kid) and self._may_reload(cached):
                    cached.keys = keys_of(await self._fetch(cached.metadata.keys))
            keys = _matching(cached.keys, kid)
        return keys

    async def _get(self, provider: Provider) -> _CachedProvider:
        async with self._lock(provider):
            cached = self._cache.get(provider)
            if cached is None or cached.loaded_at + self._settings.provider_metadata_ttl_seconds < time.monotonic():
                cached = await self._load(provider)
            return cached

    async def _load(self, provider: Provider) -> _CachedProvider:
        """Load metadata and keys.

        For `AGAIN` seconds after a failed lookup, callers get its error. So a caller that has waited for it does not
        wait for another one.
        """
        until, trouble = self._failed.pop(provider, (0.0, None))
        if trouble is not None and time.monotonic() < until:
            self._failed[provider] = until, trouble
            raise ProviderTrouble(str(trouble))
        try:
            address = provider.issuer.rstrip("/") + "/.well-known/openid-configuration"
            metadata = read(await self._fetch(address), provider, self._settings)
            keys = keys_of(await self._fetch(metadata.keys))
        except ProviderTrouble as error:
            self._failed = {
                cached_provider: cached
                for cached_provider, cached in self._failed.items()
                if cached_provider.id != provider.id
            }
            self._failed[provider] = time.monotonic() + AGAIN, error
            raise
        for old in [cached_provider for cached_provider in self._cache if cached_provider.id == provider.id]:
            del self._cache[old]
        known = self._cache[provider] = _CachedProvider(metadata, keys, time.monotonic())
        return known

    def _lock(self, provider: Provider) -> asyncio.Lock:
        return self._locks.setdefault(provider.name, asyncio.Lock())

    @staticmethod
    def _may_reload(cached: _CachedProvider) -> bool:
        now = time.monotonic()
        if len(cached.reload_times) == LOOKS and cached.reload_times[0] > now - LOOKS_SECONDS:
            return False
        cached.reload_times.append(now)
        return True


def _matching(keys: list[Key], kid: str | None) -> list[Key]:
    return [key for key in keys if kid is None or key.kid == kid]
