"""In charge of the settings of a command: read once, and a word about what is no setting, or none that is valid."""

from __future__ import annotations

import os
from pathlib import Path

import typer
from pydantic import ValidationError

from keyrack.cli.output import Failed
from keyrack.core.settings import (
    ConfigurationError,
    SecretFileError,
    Settings,
    is_secret,
    origins_of,
    unknown,
    variable,
)  # fmt: skip


def read_settings(state: Path | None = None) -> Settings:
    """The settings of the environment; a state directory that was named means its embedded database."""
    try:
        return Settings() if state is None else Settings(state=state.resolve(), database_url=None)
    except ValidationError as error:
        wrong = "; ".join(
            f"{given(str(e['loc'][0]))}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
        )
        raise Failed(f"A setting is not valid. {wrong}") from None
    except (SecretFileError, ConfigurationError) as error:
        raise Failed(str(error)) from None


def warn_of_names() -> None:
    """Say on standard error which variables of the environment look like settings, and are none."""
    for name, meant in unknown(Settings, os.environ).items():
        hint = f"Did you mean {meant}?" if meant else "docs/settings.md has all that there are."
        typer.echo(f"keyrack: {name} is no setting and does nothing. {hint}", err=True)
        del os.environ[name]  # so that processes that are started say it no more


def given(name: str) -> str:
    """The variable that a setting was given by, or the line of the configuration file."""
    by_file = variable(name, by_file=True)
    if is_secret(Settings.model_fields[name]) and os.environ.get(by_file):
        return by_file
    origin = origins_of(Settings)[name]
    return f"{origin.where}, {name}" if origin.kind == "configuration" else variable(name)
