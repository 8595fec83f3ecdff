"""The settings, read from the environment and a configuration file."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from keyrack.core.settings.batches import Batches
from keyrack.core.settings.cells import MAIN, Cells, CellSettings
from keyrack.core.settings.checkpoints import Checkpoints
from keyrack.core.settings.config_file import (
    ConfigurationError,
    ConfigurationFile,
    masked,
    nearest,
    section_titles,
    sections,
)
from keyrack.core.settings.database import Storage, default_state
from keyrack.core.settings.essential import ESSENTIAL
from keyrack.core.settings.http import Edge
from keyrack.core.settings.live_updates import Live
from keyrack.core.settings.mail import Mail
from keyrack.core.settings.maps import Maps
from keyrack.core.settings.monitoring import Monitoring, where
from keyrack.core.settings.offline_keys import Keys
from keyrack.core.settings.origins import origins
from keyrack.core.settings.provenance import SUPERVISED, Origin, origins_of, printable, unknown
from keyrack.core.settings.queries import Lists
from keyrack.core.settings.rate_limits import Callers
from keyrack.core.settings.renamed import RENAMED, OldNameError, OldVariables
from keyrack.core.settings.secret_files import SecretFileError, SecretFiles, is_secret, variable
from keyrack.core.settings.sessions import Sessions
from keyrack.core.settings.sso import Federation
from keyrack.core.settings.telemetry import Units
from keyrack.core.settings.tracing import Tracing
from keyrack.core.settings.value_errors import ValueForm, explain
from keyrack.core.settings.web_push import WebPush
from keyrack.core.settings.worker import Work

__all__ = [
    "ESSENTIAL",
    "RENAMED",
    "SUPERVISED",
    "Cell",
    "CellSettings",
    "ConfigurationError",
    "OldNameError",
    "Origin",
    "SecretFileError",
    "Settings",
    "default_state",
    "explain",
    "is_secret",
    "masked",
    "nearest",
    "origins_of",
    "printable",
    "section_titles",
    "sections",
    "unknown",
    "variable",
]  # fmt: skip


class Settings(
    Units,
    Work,
    Checkpoints,
    Callers,
    Sessions,
    Federation,
    Keys,
    Mail,
    WebPush,
    Batches,
    Lists,
    Maps,
    Live,
    Edge,
    Cells,
    Storage,
    Monitoring,
    Tracing,
):
    """All settings. docs/settings.md is generated from these fields."""

    model_config = SettingsConfigDict(env_prefix="KEYRACK_", extra="forbid", env_ignore_empty=True, frozen=True)

    log_level: Annotated[str, ValueForm("one of debug, info, warning, error")] = Field(
        default="info",
        pattern="^(debug|info|warning|error)$",
        description="Minimum level of log messages: `debug`, `info`, `warning` or `error`.",
    )

    config: Path | None = Field(
        default=None,
        description="Configuration file in TOML with other settings: their names in lower case, without `KEYRACK_`. "
        "Environment variables take precedence. The option `keyrack --config FILE` sets it, too.",
    )

    _number: int = PrivateAttr(0)  # of the cell whose database these settings have
    _settings_of_all: Settings | None = PrivateAttr(None)  # those of cell 0, unless these are
    _database_setting: str = PrivateAttr("KEYRACK_DATABASE_URL")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources by precedence: call, secret files, environment, configuration file."""
        return (
            init_settings, SecretFiles(settings_cls), env_settings, OldVariables(settings_cls),
            ConfigurationFile(settings_cls),
        )  # fmt: skip

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values. Raises `TypeError` for an unknown name, which pydantic accepts."""
        if update and (wrong := update.keys() - type(self).model_fields.keys()):
            raise TypeError(f"there is no setting {', '.join(sorted(wrong))}")
        return super().model_copy(update=update, deep=deep)

    @field_validator("trusted_proxies", "webhook_allowed_networks", "webhook_denied_networks", "provider_networks")
    @classmethod
    def _are_networks(cls, value: str, about: ValidationInfo) -> str:
        proxies = about.field_name == "trusted_proxies"
        for part in (part.strip() for part in value.split(",")):
            if not part or (proxies and part == "*"):
                continue
            try:
                interface = ipaddress.ip_interface(part)
            except ValueError:
                raise ValueError(f"{part!r} is not an address or a network") from None
            # uvicorn ignores a network with host bits
            if proxies and int(interface) != int(interface.network.network_address):
                raise ValueError(f"{part!r} is a network with host bits set")
        return value

    @field_validator("cells")
    @classmethod
    def _have_their_own_databases(cls, value: tuple[CellSettings, ...], about: ValidationInfo) -> Any:
        for cell in value:
            if cell.url == about.data.get("database_url"):
                raise ValueError(f"cell {cell.name} has the address of KEYRACK_DATABASE_URL, the database of cell 0")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, value: str) -> str:
        origins(value)
        return value

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        """All cells. Cell 0 is first, with `database_url` or the embedded database."""
        return (Cell(0, MAIN, self), *(Cell(cell.number, cell.name, self.for_cell(cell)) for cell in self.cells))

    @property
    def other_cells(self) -> tuple[Cell, ...]:
        """All cells but the one whose database is that of these settings."""
        cells = self.all_cells if self._settings_of_all is None else self._settings_of_all.all_cells
        return tuple(cell for cell in cells if cell.number != self._number)

    def for_cell(self, cell: CellSettings) -> Self:
        """The settings with the database of a cell. They have no `cells`, but their `other_cells`."""
        settings = self._for_one_cell(
            cell.number,
            {"database_url": cell.url, "database_direct_url": cell.direct_url, "read_database_url": cell.read_url},
        )
        settings._database_setting = f"`url` of the cell {cell.name} in [[cells]]"
        return settings

    def for_main_cell(self) -> Self:
        """The settings for cell 0 alone. They have no `cells`, but their `other_cells`."""
        return self._for_one_cell(0, {})

    def at_address(self, url: str, setting: str) -> Self:
        """The settings with another address of the database. Messages call it `setting`."""
        settings = self.model_copy(update={"database_url": url, "database_direct_url": None, "read_database_url": None})
        settings._database_setting = setting
        return settings

    @property
    def database_setting(self) -> str:
        """The setting with the address of the database, for a message."""
        return self._database_setting

    def _for_one_cell(self, number: int, database: Mapping[str, str | None]) -> Self:
        settings = self.model_copy(update={**database, "cells": ()})
        settings._number, settings._settings_of_all = number, self
        return settings

    def direct_address(self, dsn: str) -> str:
        """The address of the database at `dsn` without PgBouncer.

        `dsn` may be that of the embedded database.
        """
        return dsn if self.database_url is None else self.database_direct_url or dsn

    @property
    def metrics_at(self) -> tuple[str, int] | None:
        """The address and the port of `metrics`."""
        return None if self.metrics is None else where(self.metrics)

    @property
    def origins(self) -> frozenset[str]:
        """The origins of `cors_origins` as browsers write them; `*` for all."""
        return origins(self.cors_origins)

    @property
    def own_origins(self) -> frozenset[str]:
        """The origin of the public address as browsers write it."""
        return origins("{0.scheme}://{0.netloc}".format(urlsplit(self.public_url)))

    @property
    def drive_address(self) -> str:
        """The address of the drivers' app, without `/drive`."""
        return self.drive_url or self.public_url

    @property
    def drive_origins(self) -> frozenset[str]:
        """The origin of the drivers' app as browsers write it."""
        return origins("{0.scheme}://{0.netloc}".format(urlsplit(self.drive_address)))

    @property
    def box(self) -> str:
        """The product type of a key box."""
        return f"{self.brand} Box"

    @property
    def iq(self) -> str:
        """The product type that also provides telemetry and location."""
        return f"{self.brand} IQ"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with the settings of the process for it. Cell 0 has the settings as they are."""

    number: int
    name: str
    settings: Settings

    @property
    def is_one_of_several(self) -> bool:
        """Whether the installation has further cells."""
        return self.number > 0 or bool(self.settings.cells)

    @property
    def alone(self) -> Settings:
        """Settings of a process for this cell alone."""
        return self.settings.for_main_cell() if self.settings.cells else self.settings
