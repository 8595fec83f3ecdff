"""The metrics endpoint of a process, or of the parent of several.

Without a port, nothing here runs, and Prometheus' library is not imported.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import structlog
import uvicorn

from keyrack import __version__
from keyrack.core.background_tasks import supervise
from keyrack.core.metrics import catalog
from keyrack.core.metrics.instruments import snapshot
from keyrack.core.settings import Settings
from keyrack.ops.monitoring.child_metrics import Child, ChildReport, answering
from keyrack.ops.monitoring.database_gauges import GaugeCollector

log = structlog.get_logger("keyrack.metrics")

TICK = 0.5  # interval of the timer that measures the lag (seconds)
CONNECTIONS = 32  # maximum of concurrent connections
PATH = "/metrics"
CollectReports = Callable[
    [], Awaitable[Mapping[str, ChildReport | None]]
]  # reports by the index of the process; None: no reply


@dataclass(frozen=True, slots=True)
class Reports:
    """The destination of a process' metrics: an own port, its parent, or none."""

    port: socket.socket | None = None
    parent: socket.socket | None = None


NOWHERE = Reports()


@asynccontextmanager
async def reporting(reports: Reports, dsn: str, settings: Settings, role: str) -> AsyncGenerator[None]:
    """Report the metrics of this process within the block. `role` is a label."""
    catalog.CUSTOMERS.choose(settings.metrics_customers, settings.metrics_series)
    catalog.PROCESS.of(__version__, platform.python_version(), role).set(1)
    async with AsyncExitStack() as stack:
        if reports.port is not None or reports.parent is not None:
            stack.callback(asyncio.create_task(supervise("event loop lag", _measure_lag)).cancel)
        if reports.parent is not None:
            await stack.enter_async_context(answering(reports.parent))
        if reports.port is not None:
            await stack.enter_async_context(_serving(reports.port, dsn, settings, _alone))
        yield


@asynccontextmanager
async def of_children(
    port: socket.socket | None, dsn: str, settings: Settings, children: Sequence[Child]
) -> AsyncGenerator[None]:
    """Serve the metrics of these children within the block, if there is a port."""

    async def ask() -> dict[str, ChildReport | None]:
        reports = await asyncio.gather(*(child.ask() for child in children))
        return {str(place): report for place, report in enumerate(reports)}

    if port is None:
        yield
        return
    async with _serving(port, dsn, settings, ask):
        yield


async def _alone() -> dict[str, ChildReport | None]:
    return {"0": ChildReport(os.getpid(), snapshot(catalog.OF_PROCESS))}


async def _measure_lag() -> None:
    clock = asyncio.get_running_loop()
    while True:
        due = clock.time() + TICK
        await asyncio.sleep(TICK)
        catalog.LOOP_SECONDS.observe(max(0.0, clock.time() - due))


@asynccontextmanager
async def _serving(port: socket.socket, dsn: str, settings: Settings, collect: CollectReports) -> AsyncGenerator[None]:
    looks = {
        cell.name if settings.cells else None: GaugeCollector(cell.settings.database_url or dsn, cell.settings)
        for cell in settings.all_cells
    }
    server = _MetricsUvicorn(
        uvicorn.Config(
            MetricsPages(looks, collect), http="h11", ws="none", lifespan="off", log_config=None, access_log=False,
            server_header=False, proxy_headers=False, limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=1,
        )
    )  # fmt: skip
    task = asyncio.create_task(server.serve([port]))
    task.add_done_callback(lambda _: server.should_exit or log.critical("metrics endpoint failed", alert=True))
    host, number = port.getsockname()[:2]
    log.info("metrics endpoint started", address=f"[{host}]:{number}" if ":" in host else f"{host}:{number}")
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait((task,))
        for gauges in looks.values():
            await gauges.close()


class _MetricsUvicorn(uvicorn.Server):
    """uvicorn's server without signal handling, because the process handles signals."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class MetricsPages:
    """The ASGI application of the port: `/metrics`. Concurrent requests share one page.

    `gauges` are those of each cell by its name, which is None without cells.
    """

    def __init__(self, gauges: Mapping[str | None, GaugeCollector], collect: CollectReports) -> None:
        self._gauges = gauges
        self._collect = collect
        self._task: asyncio.Task[Any] | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """The interface of ASGI."""
        if scope["path"] != PATH or scope["method"] not in ("GET", "HEAD"):
            body, headers, status = b"Metrics are at /metrics.\n", {"content-type": "text/plain; charset=utf-8"}, 404
        else:
            sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            page = await self._page()
            body, headers = await asyncio.to_thread(page.text, sent)
            status = 200
        headers["content-length"] = str(len(body))
        raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw_headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _page(self) -> Any:
        """The current page of all processes and the database."""
        if self._task is None:
            self._task = asyncio.create_task(self._make())
            self._task.add_done_callback(self._made)
        return await asyncio.shield(self._task)

    def _made(self, _task: asyncio.Task[Any]) -> None:
        self._task = None

    async def _make(self) -> Any:
        from keyrack.core.metrics.exposition import MetricsPage

        reports, snapshots = await asyncio.gather(
            self._collect(), asyncio.gather(*(gauges.look() for gauges in self._gauges.values()))
        )
        catalog.UP.replace({(place,): float(report is not None) for place, report in reports.items()})
        page = MetricsPage()
        for place, report in reports.items():
            if report is not None:
                page.add(report.snapshot, place, report.pid)
        page.add(snapshot((catalog.UP,)))
        for cell, of_database in zip(self._gauges, snapshots, strict=True):
            page.add(of_database, cell=cell)
        return page
