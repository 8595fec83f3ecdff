"""A server with a provider, the provider, and visitors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import urlencode, urljoin, urlsplit

import httpx
import pytest

from keyrack.auth.sso import providers
from keyrack.core.settings import Settings
from keyrack.db.audit_context import Actor, acting
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from tests.auth.sso.oidc_provider import ABSENT, CLIENT, SECRET, Oidc, installed, running
from tests.support.people import http_client
from tests.support.servers import DEADLINE, RunningServer, Sql

NAME, DOMAIN = "corp", "corp.example"
ON = re.compile(r'http-equiv="refresh" content="0; url=([^"]+)"')


@pytest.fixture(scope="session")
def federated(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    own = settings.model_copy(update={"provider_loopback": True, "provider_timeout": DEADLINE})
    with RunningServer(own, dsn, worker=False) as server:
        yield server


@pytest.fixture(scope="session")
def certified(federated: RunningServer, dsn: str, sql: Sql) -> Iterator[Oidc]:
    if installed() is None:
        pytest.skip(ABSENT)
    with running(federated) as provider:
        asyncio.run(added(dsn, federated.settings, NAME, provider.issuer))
        sql.execute(
            "insert into provider_domain (domain, provider_id) select $1, provider_id from provider where name = $2",
            DOMAIN,
            NAME,
        )
        yield provider
        sql.execute("delete from provider")


@pytest.fixture
def oidc(certified: Oidc) -> Oidc:
    """The provider, without the settings of the previous test."""
    certified.says("nobody")
    return certified


async def added(dsn: str, settings: Settings, name: str, issuer: str) -> None:
    """A provider, as `keyrack provider add` adds it."""
    acting.set(Actor("operator", "tests"))
    db = await Database.connect(dsn, settings, size=2)
    vault = await open_vault(db, settings)
    async with db.transaction() as connection:
        label = name.capitalize()
        client = CLIENT, SECRET
        await providers.add(connection, vault, name, label, issuer, client, ["RS256"], counts_mfa=True)
    await db.close()


@dataclass
class Visitor:
    """A browser without a script: it takes one step at a time.

    It sends each host its cookies.
    """

    url: str
    cookies: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    def go(self, address: str, form: dict[str, str] | None = None) -> httpx.Response:
        address = urljoin(self.url, address)
        host = urlsplit(address).netloc
        jar = self.cookies.setdefault(host, {})
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())} if jar else {}
        if form is not None:
            headers |= {"Origin": self.url, "Content-Type": "application/x-www-form-urlencoded"}
        content = None if form is None else urlencode(form)
        method = "GET" if form is None else "POST"
        with http_client() as client:
            answer = client.request(method, address, headers=headers, content=content)
        for name, value in answer.cookies.items():
            jar[name] = value
        return answer

    def begin(self, path: str = "/console/sign-in/provider", **form: str) -> str:
        """The address of the request to the provider, which has no session."""
        self.cookies = {host: jar for host, jar in self.cookies.items() if host == urlsplit(self.url).netloc}
        answer = self.go(path, {"name": NAME, **form})
        assert answer.status_code == 200, answer.text
        found = ON.search(answer.text)
        assert found, answer.text
        return unescape(found[1])

    def answered(self, address: str) -> str:
        """The address that the provider sends the browser back to."""
        while not address.startswith(self.url):
            answer = self.go(address)
            assert answer.status_code in (302, 303), answer.text
            address = urljoin(address, answer.headers["Location"])
        return address

    def come(self, **form: str) -> httpx.Response:
        """A whole sign-in. Returns the callback's answer."""
        return self.go(self.answered(self.begin(**form)))

    @property
    def session(self) -> str | None:
        return self.cookies.get(urlsplit(self.url).netloc, {}).get("keyrack-session")


@pytest.fixture
def visitor(federated: RunningServer, oidc: Oidc) -> Visitor:
    return Visitor(federated.url)
