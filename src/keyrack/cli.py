"""In charge of the command line: the table of commands. A command's module is loaded when the command is called.

To add one: a module with `app: typer.Typer`, and a row here. A row whose name is that of a command in `app` is that
command itself; any other row is the group of all of them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

# Name -> module, and the line that `keyrack --help` shows
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("keyrack.commands.run", "Start everything with a demo fleet."),
    "serve": ("keyrack.commands.run", "Serve the API."),
    "work": ("keyrack.commands.run", "Carry out asynchronous work without serving the API."),
    "status": ("keyrack.commands.status", "Show what runs, what waits and what is wrong."),
    "doctor": ("keyrack.commands.doctor", "Look for what does not fit, and say what to do about it."),
    "migrate": ("keyrack.commands.migrate", "Bring the database's schema up to date."),
    "database": (
        "keyrack.commands.database",
        "The embedded database: PostgreSQL's programs on it, its next version; PgBouncer.",
    ),
    "backup": ("keyrack.commands.backup", "Backups of the embedded database: taken, verified, restored, tried."),
    "endpoints": ("keyrack.commands.tables", "Show the table of endpoints."),
    "errors": ("keyrack.commands.tables", "Show the table of codes of refusals."),
    "settings": ("keyrack.commands.settings", "Show the settings that hold, and where each comes from."),
    "metrics": ("keyrack.commands.metrics", "Show the table of metrics."),
    "openapi": ("keyrack.commands.tables", "Print the OpenAPI document."),
    "customer": ("keyrack.commands.customer", "Customers: the fleets that Keyrack keeps apart."),
    "device-key": ("keyrack.commands.device_key", "Device keys: for units that deliver telemetry and events."),
    "telemetry": ("keyrack.commands.telemetry", "Telemetry: take back what a wrong clock or a hostile key has told."),
    "user": ("keyrack.commands.user", "Users: what is stored about a person, and how it is erased."),
    "privacy": ("keyrack.commands.privacy", "Privacy: what a customer wants to be stored, and for how long."),
    "ingest-mqtt": ("keyrack.commands.ingest_mqtt", "Take in what units publish at an MQTT broker."),
    "simulate": ("keyrack.commands.simulate", "Drive a virtual fleet through a running server."),
    "manager": ("keyrack.commands.manager", "Managers: who logs in, and for which customers."),
    "api-key": ("keyrack.commands.api_key", "API keys: the subscriptions that may call the API."),
    "sdk-key": ("keyrack.commands.sdk_key", "SDK keys: for the apps of a customer's users."),
    "signing-key": ("keyrack.commands.signing_key", "Signing keys: what tokens are signed with."),
    "master-key": ("keyrack.commands.master_key", "The master key: what closes the secrets in the database."),
    "product": ("keyrack.commands.product", "Products: key boxes and IQ units."),
    "service": ("keyrack.commands.service", "Services and their contracts."),
    "brand": ("keyrack.commands.brand", "Brands: the catalogue of key forms."),
    "webhook": ("keyrack.commands.webhook", "Webhooks: where outcomes are sent; and tools for their receivers."),
    "housekeeping": ("keyrack.commands.housekeeping", "Housekeeping: what is forgotten in time, and when it last was."),
    "import": ("keyrack.commands.arriving", "Import a whole customer; or products, services or brands from a file."),
    "export": ("keyrack.commands.exporting", "Export a whole customer into files."),
}


def main() -> None:
    """The entry point `keyrack`."""
    arguments = sys.argv[1:]
    if os.getpid() == 1:  # of a container, whose first process gets no signal that it has not asked for
        signal.signal(signal.SIGTERM, _end)
    try:
        application(_called(arguments))(prog_name="keyrack")
    except KeyboardInterrupt:  # while modules are still being loaded
        sys.exit(130)


def _called(arguments: Sequence[str]) -> str:
    """The command: the first word that is no option, and no option's value."""
    words = iter(arguments)
    for word in words:
        if word == "--config":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _end(number: int, frame: object) -> None:
    """End before anything has begun that wants to be ended in another way."""
    sys.exit(128 + number)


def application(called: str) -> typer.Typer:
    """The whole command line, with the module of the command `called`; of the others, only what they are for."""
    app = typer.Typer(
        help="The open, self-hosted server for who may open which vehicle, when.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(_root)
    for name, (module, help) in COMMANDS.items():
        if name == called:
            _add(app, name, import_module(module).app, help)
        else:
            app.command(name, help=help)(_not_loaded)
    return app


def _add(app: typer.Typer, name: str, found: typer.Typer, help: str) -> None:
    own = [command for command in found.registered_commands if command.name == name]
    if own:
        app.registered_commands.extend(own)
    else:
        app.add_typer(found, name=name, help=help, no_args_is_help=True)


def _not_loaded() -> None:
    """Stands in the help for a command that is not called."""


def _version(wanted: bool) -> None:
    if wanted:
        from keyrack import __version__

        print(f"Keyrack {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, help="Show the version and exit.")] = False,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Configuration file, in TOML.")] = None,
) -> None:
    if config is not None:  # for whatever this command starts as well
        os.environ["KEYRACK_CONFIG"] = str(Path(config).absolute())
