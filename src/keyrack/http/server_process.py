"""The serving process: its settings, services and routes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings
from keyrack.http.calls import BoundEndpoint
from keyrack.http.compression import Compression
from keyrack.http.endpoints.health import Readiness
from keyrack.http.service_startup import open_services
from keyrack.http.services import ServeServices
from keyrack.http.session_cookie import SessionCookies


class ServerProcess:
    """One serving process. Its services are open while `lifespan` runs."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.routes: list[BoundEndpoint] = []
        self.compression = Compression(settings)
        self.sessions = SessionCookies(settings)
        self.readiness = Readiness(settings)
        self._services: ServeServices | None = None

    @asynccontextmanager
    async def lifespan(self, dsn: str) -> AsyncGenerator[None]:
        """Open the services, and close them at shutdown."""
        async with open_services(self.settings, dsn, self.sessions, self.readiness) as services:
            self._services = services
            try:
                yield
            finally:
                self.compression.close()

    @property
    def services(self) -> ServeServices:
        """Raises `Unavailable` until the process is ready."""
        if self._services is None:
            raise Unavailable
        return self._services
