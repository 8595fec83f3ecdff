"""A process that serves, works, or both, with a clean stop."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import resource
import signal
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog
import uvicorn
import uvloop

from keyrack.core import systemd
from keyrack.core.settings import Cell, Settings
from keyrack.db.connection import UNREACHABLE
from keyrack.ops.monitoring.metrics_server import NOWHERE, Reports, reporting
from keyrack.server.worker import Worker, connect

T = TypeVar("T")
log = structlog.get_logger("keyrack.process")

LINGER = 0.5  # seconds that idle connections stay at a stop: a request on its way is still answered
M_MMAP_THRESHOLD = -3  # of <malloc.h>
FILES = 65_536  # maximum number of open files


class Application(Protocol):
    """The ASGI application of a process. `failure` is the reason of a failed start."""

    failure: Exception | None

    @property
    def stop(self) -> Callable[[], None]: ...
    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None: ...


class PortInUse(Exception):
    """Another program listens at that address."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket that child processes may inherit.

    Raises `PortInUse`, or `OSError` if the address is not local.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno in (98, 48):  # EADDRINUSE on Linux, macOS
            raise PortInUse(f"Port {port} at {host} is in use. Choose another one with --port.") from None
        raise
    listener.listen(2048)
    listener.set_inheritable(True)
    return listener


class _ServerWithoutSignals(uvicorn.Server):
    """uvicorn's server without signal handling: the process stops more than HTTP."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def end(self) -> None:
        """Accept no more connections, and end after the running requests."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        from keyrack.http.connections import begin_to_end

        begin_to_end(self.config, LINGER)
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        said = logging.getLogger("uvicorn.error")
        said.disabled = True  # the caller of `serve` reports a failed start
        try:
            await super().startup(sockets)
            self.up.set()
        except SystemExit:  # it would end the event loop before the cause is reported
            self.should_exit = True
        finally:
            said.disabled = False


def serve(
    settings: Settings,
    dsn: str,
    listeners: Sequence[socket.socket],
    *,
    worker: bool,
    ready: Callable[[], None] | None = None,
    reports: Reports = NOWHERE,
) -> None:
    """Serve, and optionally work, until SIGINT or SIGTERM.

    `ready` is called when requests are accepted. Raises the cause if serving does not start. Raises `SystemExit` with
    the status 1 if a part ends before the signal, so that the process is replaced.
    """

    _return_large_blocks()
    _raise_file_limit()

    async def main() -> None:
        async with _traced(settings):
            await run()

    async def run() -> None:
        stop = stop_signal()  # a signal during startup is handled afterwards
        app = _application(settings, dsn)
        server = _ServerWithoutSignals(_configuration(settings, app))
        serving = asyncio.create_task(server.serve([*listeners]))
        up = asyncio.create_task(server.up.wait())
        await asyncio.wait((serving, up), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            raise app.failure or SystemExit(1)
        gc.freeze()  # objects that live as long as the process are not scanned again
        _return_free_memory()
        systemd.notify(systemd.READY)
        if ready is not None:
            ready()

        def end() -> None:
            app.stop()
            asyncio.get_running_loop().call_later(settings.shutdown_delay_seconds, server.end)

        async with reporting(reports, dsn, settings, "serve, work" if worker else "serve"):
            parts = {"server": serving}
            if worker:
                parts["worker"] = asyncio.create_task(run_worker(settings, dsn, stop))
            await _run(parts, stop, end)

    uvloop.run(main())


def work(settings: Settings, dsn: str, ready: Callable[[], None], reports: Reports = NOWHERE) -> None:
    """Work in this process until SIGINT or SIGTERM.

    `ready` is called when work is accepted. Raises `SystemExit` with the status 1 if the work ends before the signal.
    """

    async def main() -> None:
        stop = stop_signal()
        async with _traced(settings), reporting(reports, dsn, settings, "work"):
            await _run({"worker": asyncio.create_task(run_worker(settings, dsn, stop, ready))}, stop)

    uvloop.run(main())


def run_beside(settings: Settings, dsn: str, use: Callable[[Settings], Awaitable[T]]) -> T:
    """Serve and work in this process while `use` runs. Returns its result.

    `use` gets the settings with the address. Raises what it raises, and the cause of a failed start.
    """

    async def main() -> T:
        with listen("127.0.0.1", 0) as listener:
            local_settings = settings.model_copy(update={"public_url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
            app, stop = _application(local_settings, dsn), asyncio.Event()
            server = _ServerWithoutSignals(_configuration(local_settings, app))
            serving = asyncio.create_task(server.serve([listener]))
            await asyncio.wait((serving, asyncio.create_task(server.up.wait())), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                raise app.failure or SystemExit(1)
            working = asyncio.create_task(run_worker(local_settings, dsn, stop))
            try:
                return await use(local_settings)
            finally:
                stop.set()
                app.stop()
                server.end()
                await asyncio.gather(serving, working)

    return uvloop.run(main())


@asynccontextmanager
async def _traced(settings: Settings) -> AsyncGenerator[None]:
    """Export traces within the block, if the settings enable it."""
    if settings.traces is None:
        yield
        return
    from keyrack.core.tracing.exporter import export_spans  # imports OpenTelemetry

    async with export_spans(settings):
        yield


async def _run(
    parts: Mapping[str, asyncio.Task[None]], stop: asyncio.Event, on_stop: Callable[[], None] = lambda: None
) -> None:
    """Wait for the stop, and for the parts of the process.

    A part that ends before the stop causes an alert, and the others are stopped. A process that does half of its work
    would go unnoticed, while one that has exited is replaced.
    """
    turning = asyncio.create_task(systemd.watchdog_ping())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((stopped, *parts.values()), return_when=asyncio.FIRST_COMPLETED)
    systemd.notify(systemd.STOPPING)
    ended = {} if stop.is_set() else {name: task for name, task in parts.items() if task.done()}
    for name, task in ended.items():
        error = task.exception()
        log.critical("component exited, process stops", alert=True, component=name, error=error, exc_info=error)
    stop.set()
    on_stop()
    await asyncio.gather(*parts.values(), return_exceptions=bool(ended))
    turning.cancel()
    if ended:
        raise SystemExit(1)


async def run_worker(
    settings: Settings, dsn: str, stop: asyncio.Event, ready: Callable[[], None] | None = None
) -> None:
    """Work until the stop; with cells, for all of them. The failure of one cell does not stop the others."""
    if not settings.cells:
        await _work_in_database(settings, dsn, stop, ready)
        return
    from keyrack.server.cell_startup import keep_trying, require_usable

    waiting = [ready] if ready is not None else []

    def ready_once() -> None:
        if waiting:
            waiting.pop()()

    async def work_in(cell: Cell) -> None:
        address = cell.settings.database_url or dsn
        await require_usable(cell, address)
        await _work_in_database(cell.settings, address, stop, ready_once)

    await asyncio.gather(*(keep_trying(cell, partial(work_in, cell), stop) for cell in settings.all_cells))


async def _work_in_database(
    settings: Settings, dsn: str, stop: asyncio.Event, ready: Callable[[], None] | None
) -> None:
    db = await connect(dsn, settings)
    worker = Worker(db, settings)
    if ready is not None:
        _return_free_memory()
        systemd.notify(systemd.READY)
        ready()
    working = asyncio.create_task(worker.run())
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    await worker.stop()
    with suppress(*UNREACHABLE):  # the database may be stopping as well
        await working
    await db.close()


def configuration(settings: Settings, dsn: str) -> uvicorn.Config:
    """The configuration of uvicorn for the application over the database `dsn`."""
    return _configuration(settings, _application(settings, dsn))


def _application(settings: Settings, dsn: str) -> Application:
    from keyrack.console import SITE  # only a process that answers requests needs it, no worker and no supervisor
    from keyrack.http.app import create_app

    if not settings.cells:
        return create_app(settings, dsn, SITE)
    from keyrack.server.cell_router import CellRouter

    addresses = [(cell, cell.settings.database_url or dsn) for cell in settings.all_cells]
    return CellRouter([(cell, at, create_app(cell.settings, at, SITE)) for cell, at in addresses], settings, SITE)


def _configuration(settings: Settings, app: Application) -> uvicorn.Config:
    from keyrack.http.connections import protocol

    return uvicorn.Config(
        app,
        http=protocol(settings),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=settings.shutdown_timeout_seconds,
    )


def _return_large_blocks() -> None:
    """Have glibc return large blocks when they are freed.

    Otherwise each verified password would keep its 19 MiB.
    """
    with suppress(OSError, AttributeError):  # other C libraries need no setting
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 20)


def _return_free_memory() -> None:
    """Have glibc return memory that imports have freed.

    A server saves 3 MB.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows.

    A connection is a file, and the usual limit of 1024 is soon reached.
    """
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if before == resource.RLIM_INFINITY or before >= wanted:
        return
    with suppress(ValueError, OSError):  # some systems do not allow it
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        log.info("open file limit raised", before=before, now=wanted)


def stop_signal() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set, from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
