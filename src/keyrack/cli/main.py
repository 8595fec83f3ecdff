"""The table of commands of `keyrack`. A command's module is loaded only when the command is called.

To add a command, write a module with `app: typer.Typer`, and add a row below its heading here. If `app` has a command
of the row's name, the row is that command. Otherwise the row is a group of all commands of `app`.
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

# Heading of `keyrack --help` -> name -> module and summary
HEADINGS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "demo": ("keyrack.cli.commands.run", "Run a complete server with a demo fleet."),
        "serve": ("keyrack.cli.commands.run", "Serve the API."),
        "work": ("keyrack.cli.commands.run", "Process asynchronous work without serving the API."),
        "ingest-mqtt": ("keyrack.cli.commands.ingest_mqtt", "Receive telemetry from an MQTT broker."),
    },
    "Operate": {
        "status": ("keyrack.cli.commands.status", "Show running processes, queued work and problems."),
        "doctor": ("keyrack.cli.commands.doctor", "Check settings, machine and database, and suggest fixes."),
        "settings": ("keyrack.cli.commands.settings", "Show the effective settings and their sources."),
        "migrate": ("keyrack.cli.commands.migrate", "Upgrade the database schema."),
        "cells": ("keyrack.cli.commands.cells", "Add, list and check cells, and move customers between them."),
        "backup": (
            "keyrack.cli.commands.backup",
            "Create, list, verify, restore and test backups of the embedded database.",
        ),
        "database": (
            "keyrack.cli.commands.database",
            "Run PostgreSQL programs on the embedded database, upgrade it, or configure PgBouncer.",
        ),
        "mail": ("keyrack.cli.commands.mail", "Send a test mail."),
        "housekeeping": ("keyrack.cli.commands.housekeeping", "Show clean-up jobs and when they last ran."),
        "audit": ("keyrack.cli.commands.audit", "Export, checkpoint and verify change logs."),
    },
    "Customers and people": {
        "customer": ("keyrack.cli.commands.customer", "Add, list, change and remove customers."),
        "manager": ("keyrack.cli.commands.manager", "Manage managers: accounts, roles and sign-in methods."),
        "provider": ("keyrack.cli.commands.provider", "Configure single sign-on."),
        "client": ("keyrack.cli.commands.client", "Manage machine clients and their scopes."),
        "user": ("keyrack.cli.commands.user", "Change, export or erase the data of a person."),
        "privacy": ("keyrack.cli.commands.privacy", "Set which data of a customer are stored, and for how long."),
    },
    "Keys": {
        "api-key": ("keyrack.cli.commands.api_key", "Add, list and revoke API keys."),
        "sdk-key": ("keyrack.cli.commands.sdk_key", "Add, list and revoke SDK keys for apps of customers' users."),
        "device-key": ("keyrack.cli.commands.device_key", "Manage the keys with which units deliver data."),
        "signing-key": ("keyrack.cli.commands.signing_key", "Rotate and revoke the keys that sign tokens."),
        "master-key": (
            "keyrack.cli.commands.master_key",
            "Create, rotate and retire the key that encrypts stored secrets.",
        ),
    },
    "Fleets": {
        "product": ("keyrack.cli.commands.product", "Add, list, change and remove key boxes and IQ units."),
        "service": ("keyrack.cli.commands.service", "Manage services, their contracts and their pairing."),
        "brand": ("keyrack.cli.commands.brand", "Manage the catalogue of brands, key forms and compatible boxes."),
        "box": ("keyrack.cli.commands.box", "Enrol key boxes that open without a network."),
        "keys": ("keyrack.cli.commands.keys", "Manage offline keys: policy, signing keys and roots."),
        "webhook": ("keyrack.cli.commands.webhook", "Manage webhooks, inspect deliveries and test receivers."),
        "telemetry": ("keyrack.cli.commands.telemetry", "Discard bad telemetry."),
        "import": (
            "keyrack.cli.commands.import_api",
            "Import a whole customer, or products, services or brands.",
        ),
        "export": ("keyrack.cli.commands.export", "Export a whole customer to files."),
        "simulate": ("keyrack.cli.commands.simulate", "Simulate a fleet on a running server."),
        "simulate-keys": (
            "keyrack.cli.commands.simulate_keys",
            "Simulate weeks of offline keys, with attacks.",
        ),
    },
    "Call the API": {
        "login": ("keyrack.cli.commands.login", "Log in to a server, and save the token in a profile."),
        "logout": ("keyrack.cli.commands.login", "Delete a profile with its token."),
        "api": ("keyrack.cli.commands.api", "Send a request to the API."),
        "cars": ("keyrack.cli.commands.fleet", "List the cars of the customer, or show one."),
        "users": ("keyrack.cli.commands.fleet", "List the users of the customer, or show one."),
        "assignments": ("keyrack.cli.commands.fleet", "List past, current and future assignments, or show one."),
        "operations": ("keyrack.cli.commands.fleet", "List operations and their results, or show one."),
        "events": ("keyrack.cli.commands.fleet", "Show the newest events, and follow new ones."),
    },
    "Reference": {
        "endpoints": ("keyrack.cli.commands.reference", "List the endpoints of the API."),
        "roles": ("keyrack.cli.commands.reference", "List the permissions of each role."),
        "errors": ("keyrack.cli.commands.reference", "List the error codes of the API."),
        "metrics": ("keyrack.cli.commands.metrics", "List the metrics for Prometheus."),
        "openapi": ("keyrack.cli.commands.reference", "Print the OpenAPI document."),
        "completion": ("keyrack.cli.commands.completion", "Print the completion script of a shell."),
    },
}
COMMANDS = {name: row for rows in HEADINGS.values() for name, row in rows.items()}
COMPLETING = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")  # the line to complete: from bash; from zsh and fish


def main() -> None:
    """The entry point `keyrack`."""
    arguments = _completed() or sys.argv[1:]
    if os.getpid() == 1:  # the kernel drops signals to PID 1 without a handler
        signal.signal(signal.SIGTERM, _end)
    try:
        application(_called(arguments))(prog_name="keyrack")
    except KeyboardInterrupt:  # while modules are loading
        sys.exit(130)


def _completed() -> list[str]:
    """The words of the line to complete, if a shell asks for completion."""
    if "_KEYRACK_COMPLETE" not in os.environ:
        return []
    return next((os.environ[name].split()[1:] for name in COMPLETING if name in os.environ), list[str]())


def _called(arguments: Sequence[str]) -> str:
    """The command: the first word that is neither an option nor an option's value."""
    words = iter(arguments)
    for word in words:
        if word == "--config":
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _end(number: int, frame: object) -> None:
    """End at once, until a command sets its own handler.

    The kernel ends every other process in this way. `sys.exit` would finalize the interpreter wherever the signal
    arrives: in a driver's C code that can crash.
    """
    os._exit(128 + number)


def application(called: str) -> typer.Typer:
    """The command line with the module of the command `called`, and only the summaries of all others."""
    app = typer.Typer(
        cls=HelpGroup,
        help="Keyrack: self-hosted vehicle access. It controls who may open which vehicle, and when.",
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
    """Placeholder in the help for a command that is not called."""


def _version(wanted: bool) -> None:
    if wanted:
        from keyrack import __version__

        print(f"Keyrack {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, help="Show the version and exit.")] = False,
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Configuration file, in TOML.")] = None,
) -> None:
    if config is not None:  # also for child processes
        os.environ["KEYRACK_CONFIG"] = str(Path(config).absolute())
