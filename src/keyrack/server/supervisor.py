"""The supervisor of several processes: start, watchdog, restart, metrics, stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

import structlog
import uvloop

from keyrack.core import systemd
from keyrack.core.settings import SUPERVISED, Settings
from keyrack.db.embedded.server import end_with_parent
from keyrack.ops.monitoring.child_metrics import Child
from keyrack.ops.monitoring.metrics_server import of_children
from keyrack.server.process import stop_signal

log = structlog.get_logger("keyrack.supervisor")

OF_OWN = 5.0  # seconds beyond `shutdown_timeout_seconds` for a child to end
RESTART = 1.0  # seconds between a child's death and its successor


def supervise(
    commands: Sequence[Sequence[str]],
    dsn: str,
    listener: socket.socket,
    settings: Settings,
    ready: Callable[[], None],
    port: socket.socket | None = None,
) -> None:
    """Run `keyrack` commands as child processes until SIGINT or SIGTERM.

    A child that exits is restarted, and so is one that is silent for longer than its watchdog allows. `ready` is called
    when all children are ready. At `port` this process serves their metrics.
    """

    async def main() -> None:
        stop = stop_signal()
        turning = asyncio.create_task(systemd.watchdog_ping())
        up = [asyncio.Event() for _ in commands]
        telling = asyncio.create_task(_tell_ready(up, ready))
        grace = settings.shutdown_timeout_seconds + settings.shutdown_delay_seconds + OF_OWN
        places = [Child(is_polled=port is not None) for _ in commands]
        async with of_children(port, dsn, settings, places):
            each = zip(commands, up, places, strict=True)
            await asyncio.gather(*(_keep_alive(*child, listener, grace, stop) for child in each))
        telling.cancel()
        turning.cancel()

    uvloop.run(main())


async def _tell_ready(up: Sequence[asyncio.Event], ready: Callable[[], None]) -> None:
    for child in up:
        await child.wait()
    systemd.notify(systemd.READY)
    ready()


async def _keep_alive(
    command: Sequence[str],
    up: asyncio.Event,
    place: Child,
    listener: socket.socket,
    grace: float,
    stop: asyncio.Event,
) -> None:
    stopped = asyncio.create_task(stop.wait())
    while not stop.is_set():
        with closing(systemd.SystemdNotifier()) as herald:
            try:
                with place.line() as (options, files):
                    child = await asyncio.create_subprocess_exec(
                        sys.executable, "-m", "keyrack", *command, *options,
                        env=os.environ | herald.environment() | {SUPERVISED: "1"},
                        pass_fds=[listener.fileno(), *files], start_new_session=True,
                        preexec_fn=end_with_parent(signal.SIGTERM),
                        stdout=DEVNULL,  # the parent prints the address
                    )  # fmt: skip
                    place.pid = child.pid
            except OSError as error:  # a lack of memory or processes must not end the running children
                log.error("child process start failed, retrying", command=command[0], error=error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), RESTART)
                continue
            ended = asyncio.create_task(child.wait())
            silent = asyncio.create_task(herald.hear(up))
            await asyncio.wait((ended, stopped, silent), return_when=asyncio.FIRST_COMPLETED)
            if not stop.is_set():
                if not ended.done():
                    child.kill()
                    await ended
                log.error(
                    "child process exited, restarting",
                    command=command[0], status=child.returncode, unresponsive=silent.done(),
                )  # fmt: skip
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), RESTART)
            elif child.returncode is None:
                child.terminate()
                try:
                    await asyncio.wait_for(ended, grace)
                except TimeoutError:
                    child.kill()
                    await child.wait()
            silent.cancel()
            await asyncio.gather(silent, return_exceptions=True)
