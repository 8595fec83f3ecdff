"""In charge of the command line: the table of commands. A command's module is loaded when the command is called.

To add one: a module with `app: typer.Typer`, and a row below its heading here. A row whose name is that of a command in
`app` is that command itself; any other row is the group of all of them.
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

from keyrack.cli.help_groups import HelpGroup

# Heading of `keyrack --help` -> name -> module, and the sentence that is shown
HEADINGS: dict[str, dict[str, tuple[str, str]]] = {
    "Run it": {
        "demo": ("keyrack.cli.commands.run", "Start everything with a demo fleet."),
        "serve": ("keyrack.cli.commands.run", "Serve the API."),
        "work": ("keyrack.cli.commands.run", "Carry out asynchronous work without serving the API."),
        "ingest-mqtt": ("keyrack.cli.commands.ingest_mqtt", "Take in what units publish at an MQTT broker."),
    },
    "Look after it": {
        "status": ("keyrack.cli.commands.status", "Show what runs, what waits and what is wrong."),
        "doctor": ("keyrack.cli.commands.doctor", "Look for what does not fit, and say what to do about it."),
        "settings": ("keyrack.cli.commands.settings", "Show the settings that hold, and where each comes from."),
        "migrate": ("keyrack.cli.commands.migrate", "Bring the database's schema up to date."),
        "backup": (
            "keyrack.cli.commands.backup",
            "Take, list, verify, restore and try backups of the embedded database.",
        ),
        "database": (
            "keyrack.cli.commands.database",
            "Run PostgreSQL's programs on the embedded database, or bring it to its next major version.",
        ),
        "mail": ("keyrack.cli.commands.mail", "Try whether the mail server takes what Keyrack sends."),
        "housekeeping": ("keyrack.cli.commands.housekeeping", "Show what is forgotten in time, and when it last was."),
        "audit": ("keyrack.cli.commands.audit", "Write out a log of changes, and verify that it is what it was."),
    },
    "Customers and people": {
        "customer": (
            "keyrack.cli.commands.customer",
            "Add, list, rename and remove customers, whose fleets are kept apart.",
        ),
        "manager": ("keyrack.cli.commands.manager", "Say who logs in, and for which customers."),
        "provider": ("keyrack.cli.commands.provider", "Say with which accounts of elsewhere people may sign in."),
        "client": ("keyrack.cli.commands.client", "Say which programs call in their own name, and what they may."),
        "user": ("keyrack.cli.commands.user", "Show what is stored about a person, or erase it."),
        "privacy": ("keyrack.cli.commands.privacy", "Say what is stored of a customer's cars, and for how long."),
    },
    "Keys": {
        "api-key": (
            "keyrack.cli.commands.api_key",
            "Add, list and revoke API keys, without which nobody calls the API.",
        ),
        "sdk-key": ("keyrack.cli.commands.sdk_key", "Add, list and revoke the keys of the apps of customers' users."),
        "device-key": ("keyrack.cli.commands.device_key", "Add, list and revoke the keys of units that deliver data."),
        "signing-key": ("keyrack.cli.commands.signing_key", "Rotate and revoke the keys that tokens are signed with."),
        "master-key": (
            "keyrack.cli.commands.master_key",
            "Make, rotate and retire the key that closes all stored secrets.",
        ),
    },
    "Fleets": {
        "product": ("keyrack.cli.commands.product", "Add, list, correct and remove key boxes and IQ units."),
        "service": ("keyrack.cli.commands.service", "Add, list, pair, end and remove services and their contracts."),
        "brand": (
            "keyrack.cli.commands.brand",
            "Keep the catalogue of brands, of their key forms, and of the boxes that fit.",
        ),
        "keys": (
            "keyrack.cli.commands.keys",
            "Say who signs keys that open boxes without a network, and what a customer wants of them.",
        ),
        "webhook": (
            "keyrack.cli.commands.webhook",
            "Say where outcomes are sent, see what was sent, and try a receiver.",
        ),
        "telemetry": ("keyrack.cli.commands.telemetry", "Take back what a wrong clock or a hostile key has told."),
        "import": (
            "keyrack.cli.commands.import_api",
            "Import a whole customer; or products, services or brands.",
        ),
        "export": ("keyrack.cli.commands.export", "Export a whole customer into files."),
        "simulate": ("keyrack.cli.commands.simulate", "Drive a virtual fleet through a running server."),
        "simulate-keys": (
            "keyrack.cli.commands.simulate_keys",
            "Let weeks of keys that open without a network pass, with thieves.",
        ),
    },
    "Call the API": {
        "login": ("keyrack.cli.commands.login", "Log in to a server, and keep the token in a profile."),
        "logout": ("keyrack.cli.commands.login", "Forget the token of a profile."),
        "api": ("keyrack.cli.commands.api", "Send any request to the API, signed in."),
        "cars": ("keyrack.cli.commands.fleet", "List the cars of the customer, or show one of them."),
        "users": ("keyrack.cli.commands.fleet", "List the users of the customer, or show one of them."),
        "assignments": (
            "keyrack.cli.commands.fleet",
            "List assignments: past, in force and to come; or show one of them.",
        ),
        "operations": ("keyrack.cli.commands.fleet", "List what became of what was asked for, or show one of these."),
        "events": ("keyrack.cli.commands.fleet", "Show the newest events, and those to come as they come."),
    },
    "Tables and documents": {
        "endpoints": ("keyrack.cli.commands.reference", "Show the table of endpoints."),
        "roles": ("keyrack.cli.commands.reference", "Show what each role of a manager may."),
        "errors": ("keyrack.cli.commands.reference", "Show the table of codes of refusals."),
        "metrics": ("keyrack.cli.commands.metrics", "Show the table of metrics."),
        "openapi": ("keyrack.cli.commands.reference", "Print the OpenAPI document."),
        "completion": ("keyrack.cli.commands.completion", "Print what makes a shell complete commands and options."),
    },
}
COMMANDS = {name: row for rows in HEADINGS.values() for name, row in rows.items()}
COMPLETING = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")  # what bash says of the line that is completed, and zsh and fish


def main() -> None:
    """The entry point `keyrack`."""
    arguments = _completed() or sys.argv[1:]
    if os.getpid() == 1:  # of a container, whose first process gets no signal that it has not asked for
        signal.signal(signal.SIGTERM, _end)
    try:
        application(_called(arguments))(prog_name="keyrack")
    except KeyboardInterrupt:  # while modules are still being loaded
        sys.exit(130)


def _completed() -> list[str]:
    """The words of the line that a shell wants completed, if this is what the process is for."""
    if "_KEYRACK_COMPLETE" not in os.environ:
        return []
    return next((os.environ[name].split()[1:] for name in COMPLETING if name in os.environ), list[str]())


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
        cls=HelpGroup,
        help="The open, self-hosted server for who may open which vehicle, when.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(_root)
    for heading, rows in HEADINGS.items():
        for name, (module, help) in rows.items():
            if name == called:
                _add(app, name, import_module(module).app, help, heading)
            else:
                app.command(name, help=help, rich_help_panel=heading)(_not_loaded)
    return app


def _add(app: typer.Typer, name: str, group: typer.Typer, help: str, heading: str) -> None:
    own = [command for command in group.registered_commands if command.name == name]
    for command in own:
        command.rich_help_panel = heading
    if own:
        app.registered_commands.extend(own)
    else:
        app.add_typer(group, cls=HelpGroup, name=name, help=help, no_args_is_help=True, rich_help_panel=heading)


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
