"""The settings of a command, and warnings about unknown names."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from pydantic import ValidationError

from keyrack.cli.output import CommandFailed
from keyrack.core.settings import (
    SUPERVISED,
    ConfigurationError,
    OldNameError,
    SecretFileError,
    Settings,
    explain,
    is_secret,
    origins_of,
    unknown,
    variable,
)  # fmt: skip


def read_settings(state: Path | None = None) -> Settings:
    """Read the settings. A state directory in the call selects its embedded database."""
    try:
        return Settings() if state is None else Settings(state=state.resolve(), database_url=None)
    except ValidationError as error:
        wrong = " ".join(
            f"{given(name)}: {explain(e, Settings.model_fields[name])}."
            for e in error.errors()
            for name in [str(e["loc"][0])]
        )
        raise CommandFailed(f"A setting is not valid. {wrong}") from None
    except (SecretFileError, ConfigurationError, OldNameError) as error:
        raise CommandFailed(str(error)) from None


def warn_of_names() -> None:
    """Warn on standard error about unknown variables.

    The child process of a supervisor does not repeat the warning of its parent.
    """
    if os.environ.get(SUPERVISED):
        return
    for name, meant in unknown(Settings, os.environ).items():
        hint = f"Did you mean {meant}?" if meant else "See docs/settings.md."
        typer.echo(f"keyrack: {name} is not a setting and has no effect. {hint}", err=True)
        del os.environ[name]  # child processes do not repeat the warning


def configured_in(name: str) -> str:
    """The place that sets a setting, or else the configuration file."""
    if origins_of(Settings)[name].kind in ("file", "environment"):
        return given(name)
    return os.environ.get(variable("config")) or f"a configuration file ({variable('config')})"


def given(name: str) -> str:
    """The variable that sets a setting, or the line of the configuration file."""
    by_file = variable(name, by_file=True)
    if is_secret(Settings.model_fields[name]) and os.environ.get(by_file):
        return by_file
    origin = origins_of(Settings)[name]
    if origin.kind == "configuration":
        return f"{origin.where}, {name}"
    return variable(name)
