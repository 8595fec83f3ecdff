"""The commands that run Keyrack: demo, serve and work."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import keyrack.core.log_config as log_config  # before others: it keeps a library of structlog out
from keyrack.changelog.transparency import checkpoint_keys
from keyrack.cli import server_address
from keyrack.cli.commands.metrics import MetricsFd, reports_of
from keyrack.cli.create_database import check_beginning
from keyrack.cli.database_opening import embedded_server
from keyrack.cli.database_session import Json, State, explained, read_settings
from keyrack.cli.environment import warn_of_names
from keyrack.cli.output import CommandFailed
from keyrack.core import systemd
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.audit_context import acting, operator
from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.encryption import master_keys
from keyrack.ops.backups import connection
from keyrack.server import database_checks

app = typer.Typer()

KEY_OPENINGS = "events?q=Keyrack+key"  # page of the console with openings by offline keys
LOOPBACK = "127.0.0.0/8,::1/128"  # users of the demo run webhook receivers on their own machine

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")]


@contextmanager
def running_database(settings: Settings, *, migrates: bool = True, serves: bool = False) -> Generator[str]:
    """The address of the database with a compatible schema; with `migrates`, the schema is upgraded if needed.

    The embedded server runs until the block ends. Raises `SchemaError`. A process that `serves` or works also raises
    `MasterKeyError`, before anything is migrated. With cells, it migrates the others as well, and starts although any
    of them, cell 0 too, is away.
    """

    def prepare(dsn: str) -> None:
        with _may_be_away(settings) if serves else nullcontext():
            if serves:
                asyncio.run(_check_before_migration(dsn, settings))
            asyncio.run(
                schema_version.migrate(dsn, settings) if migrates else schema_version.require(dsn, settings, newer=True)
            )
        if serves and settings.cells:
            from keyrack.server import cell_startup

            asyncio.run(cell_startup.migrate_others(settings.all_cells))

    if settings.database_url is not None:
        prepare(settings.direct_address(settings.database_url))
        yield settings.database_url
        return
    with embedded_server(settings) as server:
        prepare(server.dsn)
        asyncio.run(connection.warn(settings, server.dsn))
        yield server.dsn


@contextmanager
def _may_be_away(settings: Settings) -> Generator[None]:
    """With cells, allow that the database of cell 0 is away: the process serves the others meanwhile."""
    try:
        yield
    except (Unavailable, *UNREACHABLE) as error:
        if not settings.cells:
            raise
        from keyrack.server import cell_startup

        cell_startup.report(settings.all_cells[0], error)


async def _check_before_migration(dsn: str, settings: Settings) -> None:
    status = await schema_version.read_schema_state(settings.direct_address(dsn), settings)
    await database_checks.check_before_migration(dsn, settings, status)


def check_database(dsn: str, settings: Settings) -> None:
    """Check the database of cell 0 before the server is ready, as `database_checks.check_database` does."""
    with _may_be_away(settings):
        asyncio.run(database_checks.check_database(dsn, settings.all_cells[0]))


def check_files(settings: Settings) -> None:
    """Check the console's files and the map tiles before anything starts. Raises `CommandFailed`."""
    from keyrack.console import map_tiles
    from keyrack.console.static_files import MissingFiles, load_static_files

    try:
        load_static_files()
        map_tiles.check(settings)
    except (MissingFiles, map_tiles.BadTiles) as missing:
        raise CommandFailed(str(missing)) from None


def check_traces(settings: Settings) -> None:
    """Check that the exporter of traces is installed, if traces are configured. Raises `CommandFailed`."""
    try:
        if settings.traces is not None:
            import_module("opentelemetry.exporter.otlp.proto.http")
            import_module("opentelemetry.sdk")
    except ModuleNotFoundError as missing:
        raise CommandFailed(
            f"KEYRACK_TRACES is set, but {missing.name} is not installed. Run: pip install 'keyrack[traces]'. "
            "Nothing was started."
        ) from None


def reached_at(settings: Settings, host: str, port: int) -> Settings:
    """The settings with the address for clients, unless it is set."""
    if "public_url" in settings.model_fields_set:
        return settings
    named = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104 - only compared
    return settings.model_copy(update={"public_url": f"http://{named}:{port}"})


@app.command("serve")
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8080,
    processes: Annotated[int, typer.Option("--processes", min=1, max=256, help="Number of serving processes.")] = 1,
    worker: Annotated[bool, typer.Option("--worker/--no-worker", help="Also process asynchronous work.")] = True,
    fd: Annotated[int | None, typer.Option("--fd", hidden=True)] = None,
    metrics_fd: MetricsFd = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Serve the API. With --json, one line on standard output has the address as soon as the server is ready."""

    named = state is not None
    explained(lambda: _serve(host, port, processes, worker, fd, metrics_fd, read_settings(state), as_json, named))


def _serve(
    host: str, port: int, processes: int, worker: bool, fd: int | None, metrics_fd: int | None, settings: Settings,
    as_json: bool, named: bool,
) -> None:  # fmt: skip
    from keyrack.server import process as running
    from keyrack.server.supervisor import supervise

    log_config.configure(settings.log_level)
    check_files(settings)
    check_traces(settings)
    listener = socket.socket(fileno=fd) if fd is not None else systemd.inherited() or _listen(host, port)
    check_beginning(settings, "serve", named=named)
    warn_of_names()
    reports = reports_of(settings, metrics_fd)
    settings = reached_at(settings, *listener.getsockname()[:2])

    def ready() -> None:
        if fd is None:
            server_address.publish(settings)
            _say_ready(settings, listener, as_json)

    with running_database(settings, serves=True) as dsn:
        check_database(dsn, settings)
        if checkpoint_keys.is_ours(settings):
            checkpoint_keys.make(settings)
        if processes == 1:
            running.serve(settings, dsn, [listener], worker=worker, ready=ready, reports=reports)
            return
        os.environ["KEYRACK_PUBLIC_URL"] = settings.public_url
        if settings.checkpoint_key_file is None:
            os.environ["KEYRACK_CHECKPOINT_KEY_FILE"] = str(checkpoint_keys.path(settings))
        if settings.master_key is None:
            # A child may have another state directory
            os.environ["KEYRACK_MASTER_KEY_FILE"] = str(master_keys.path(settings))
        # With an external database a child reads the address itself, so that a password in a file stays there
        if settings.database_url is None:
            os.environ["KEYRACK_DATABASE_URL"] = dsn
            os.environ.pop("KEYRACK_DATABASE_URL_FILE", None)
        child = ["serve", "--no-worker", "--fd", str(listener.fileno())]
        children = [child] * processes + [["work"]] * worker
        supervise(children, dsn, listener, settings, ready, reports.port)


def _listen(host: str, port: int) -> socket.socket:
    from keyrack.server import process as running

    try:
        return running.listen(host, port)
    except running.PortInUse as error:
        raise CommandFailed(str(error)) from None
    except OSError as error:
        raise CommandFailed(f"Keyrack cannot listen on {host}, port {port}: {error.strerror}.") from None


def _listen_on_loopback(port: int) -> list[socket.socket]:
    """Listeners on the loopback addresses of IPv4 and IPv6, on the same port; without IPv6 only the first one.

    A client may try either address for `localhost`. Raises `CommandFailed`.
    """
    from keyrack.server import process as running

    ipv4 = _listen("127.0.0.1", port)
    try:
        return [ipv4, running.listen("::1", ipv4.getsockname()[1])]
    except running.PortInUse as error:
        ipv4.close()
        if port:
            raise CommandFailed(str(error)) from None
        return _listen_on_loopback(port)  # the port is free on IPv4 but used on IPv6, so try another one
    except OSError:
        return [ipv4]


def _say_ready(settings: Settings, listener: socket.socket, as_json: bool) -> None:
    url, (host, port) = f"{settings.public_url}/v3", listener.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    text = f"Keyrack serves {url} and listens on {address}. Stop with Ctrl-C."
    print(json.dumps({"url": url, "address": address}) if as_json else text, flush=True)


@app.command("work")
def work(
    cell: Annotated[
        str | None, typer.Option("--cell", metavar="NAME", help="Work for this cell alone. Default: for all cells.")
    ] = None,
    metrics_fd: MetricsFd = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Process asynchronous work without serving the API."""

    def ready() -> None:
        print(json.dumps({"working": True}) if as_json else "Working. Stop with Ctrl-C.", flush=True)

    def run() -> None:
        from keyrack.server import process as running

        settings = read_settings(state)
        log_config.configure(settings.log_level)
        check_traces(settings)
        check_beginning(settings, "work", named=state is not None)
        warn_of_names()
        reports = reports_of(settings, metrics_fd)
        settings = _of_cell(settings, cell)
        with running_database(settings, serves=True) as dsn:
            check_database(dsn, settings)
            running.work(settings, dsn, ready, reports)

    explained(run)


def _of_cell(settings: Settings, name: str | None) -> Settings:
    """The settings for one cell alone; those of all cells without a name.

    The database of another cell than cell 0 is migrated and checked first. Raises `CommandFailed` for an unknown name.
    """
    if name is None:
        return settings
    from keyrack.cli.cell_choice import named_cell
    from keyrack.server import cell_startup

    cell = named_cell(settings, name)
    if cell.number:
        asyncio.run(cell_startup.prepare(cell))
    return cell.alone


@app.command("demo")
def demo(port: Port = 8080, state: State = None, as_json: Json = False) -> None:
    """Run database, API and worker with a demo fleet. A later start continues with the same data."""
    explained(lambda: _demo(port, state is not None, read_settings(state), as_json))


def _demo(port: int, state_named: bool, settings: Settings, as_json: bool) -> None:
    from keyrack.server import process as running
    from keyrack.simulator.demo import ENV
    from keyrack.simulator.radio_bridge import private_socket

    log_config.configure("warning" if settings.log_level == "info" else settings.log_level)
    check_files(settings)
    check_traces(settings)
    listeners = _listen_on_loopback(port)
    warn_of_names()
    reports = reports_of(settings, None)
    if not state_named and not (settings.state / ENV).exists():  # keeps the demo out of the real state directory
        settings = settings.model_copy(update={"state": settings.state / "demo", "backup_directory": "off"})
    networks = ",".join(filter(None, (settings.webhook_allowed_networks, LOOPBACK)))
    settings = settings.model_copy(update={"webhook_allowed_networks": networks})
    settings = reached_at(settings, "localhost", listeners[0].getsockname()[1])  # a name, for passkeys
    if not as_json:
        print(f"Starting the demo in {settings.state}. The first start can take a minute.", file=sys.stderr, flush=True)
    with private_socket() as radio, running_database(settings, serves=True) as dsn:
        settings = settings.model_copy(update={"simulated_radio_socket": radio, "drive_url": None})
        check_database(dsn, settings)
        env = asyncio.run(_load(dsn, settings))

        def ready() -> None:
            server_address.publish(settings)
            _say_demo(env, settings, as_json)
            _drive(env, settings, radio)

        running.serve(settings, dsn, listeners, worker=True, ready=ready, reports=reports)


async def _load(dsn: str, settings: Settings) -> dict[str, str]:
    """The environment of the demo fleet, as in demo.env."""
    from keyrack.simulator.demo import prepare

    acting.set(operator())
    database = await Database.connect(dsn, settings)
    try:
        return await prepare(database, settings)
    finally:
        await database.close()


def _drive(env: Mapping[str, str], settings: Settings, radio: Path) -> None:
    """Drive some of the demo's cars, and let the app open others.

    Both end with the server.
    """
    from keyrack.simulator import SimulatorCredentials, drive_in_background
    from keyrack.simulator.demo.driver import CARS
    from keyrack.simulator.radio_bridge import bridge_in_background

    access = SimulatorCredentials(
        env["KEYRACK_URL"], env["KEYRACK_API_KEY"], env["KEYRACK_USERNAME"], env["KEYRACK_PASSWORD"],
        int(env["KEYRACK_CUSTOMER_ID"]), env["KEYRACK_DEVICE_KEY"], settings.brand, env["KEYRACK_SDK_KEY"],
    )  # fmt: skip
    bridge_in_background(access, CARS, radio)
    drive_in_background(access)


def _say_demo(env: dict[str, str], settings: Settings, as_json: bool) -> None:
    if as_json:
        print(json.dumps(env), flush=True)
        return
    width = max(len(name) for name in env)
    lines = [
        f"Open {settings.public_url}/console",
        f"  User name  {env['KEYRACK_USERNAME']}",
        f"  Password   {env['KEYRACK_PASSWORD']}",
        "",
        f"Open a car as its driver, on this computer, at {settings.public_url}/drive",
        f"  E-mail     {env['KEYRACK_DRIVER_EMAIL']}",
        f"  Password   {env['KEYRACK_DRIVER_PASSWORD']}",
        "",
        "Cars drive. Phones open them by offline keys, over a simulated radio. Their openings are at",
        f"  {settings.public_url}/console/{env['KEYRACK_CUSTOMER_ID']}/{KEY_OPENINGS}",
        "",
        f"The API is at {env['KEYRACK_URL']}; the reference is at {settings.public_url}/docs",
        "",
        *(f"  {name:<{width}}  {value}" for name, value in env.items()),
        "",
        f"In another terminal:  . {settings.state / 'demo.env'}",
        "Stop with Ctrl-C.",
    ]
    print("\n".join(lines), file=sys.stdout, flush=True)
