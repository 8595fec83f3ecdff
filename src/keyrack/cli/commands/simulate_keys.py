"""The command `simulate-keys`, which simulates weeks of offline keys with phones, boxes and attackers."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from keyrack.cli.commands.keys import Limit, Uncertain
from keyrack.cli.database_session import Json, explained, read_settings
from keyrack.cli.output import CommandFailed
from keyrack.cli.progress import progress
from keyrack.cli.radio_options import RadioFaults, radio_conditions
from keyrack.core import log_config
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.embedded.server import EmbeddedServer

app = typer.Typer()

# Options of a temporary database: durability does not matter
HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@app.command("simulate-keys")
def simulate_keys(
    weeks: Annotated[float, typer.Option("--weeks", min=0.1, max=52, help="Simulated weeks.")] = 3,
    cars: Annotated[int, typer.Option("--cars", min=2, max=100, help="Number of cars with a box.")] = 6,
    users: Annotated[int, typer.Option("--users", min=2, max=500, help="Number of users with a phone.")] = 12,
    seed: Annotated[int, typer.Option("--seed", help="Random seed: the same seed repeats the simulation.")] = 1,
    limit: Limit = None,
    uncertain: Uncertain = None,
    radio: RadioFaults = "",
    as_json: Json = False,
) -> None:
    """Simulate weeks of garages without a network: boxes, phones and attackers, on a temporary server.

    The exit status is 0 if no attacker opened a box, no valid key was rejected, and all events agree; else 1.
    """
    from keyrack.simulator.offline import ApiError, Garage, pass_weeks

    garage = Garage(weeks, cars, users, seed, limit or None, uncertain == "open", radio_conditions(radio))

    def run() -> None:
        log_config.configure("critical")  # forged logs are part of the simulation
        try:
            with _thrown_away() as (settings, dsn), progress() as show:
                summary = pass_weeks(settings, dsn, garage, lambda done: show("Simulating", done, garage.seconds))
        except ApiError as error:
            raise CommandFailed(str(error)) from None
        print(json.dumps(summary.shown()) if as_json else "\n".join(summary.lines()))
        if not summary.is_good:
            raise typer.Exit(1)

    explained(run)


@contextmanager
def _thrown_away() -> Generator[tuple[Settings, str]]:
    """Default settings, independent of the environment, with a temporary database."""
    with tempfile.TemporaryDirectory(prefix="keyrack-weeks-", ignore_cleanup_errors=True) as name:
        state = Path(name)
        state.chmod(0o711)  # the database may run as another user
        bin_dir = read_settings().postgres_bin
        settings = Settings.model_construct(state=state, postgres_bin=bin_dir, backup_directory="off")
        with EmbeddedServer(state, bin_dir=bin_dir, options=HASTY, backups="off") as server:
            asyncio.run(schema_version.migrate(server.dsn, settings))
            yield settings, server.dsn
