"""Settings of cells: databases with customers of their own."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode

from keyrack.core.cell_ids import MOST_CELLS
from keyrack.core.settings.database import database_address
from keyrack.core.settings.secret_files import SECRET
from keyrack.core.settings.value_errors import ValueForm

MAIN = "main"  # name of cell 0, whose database is KEYRACK_DATABASE_URL
MEMBERS = "name, number, url, direct_url, read_url"


class CellSettings(BaseModel):
    """One `[[cells]]`: a complete Keyrack with its own customers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, ValueForm("1 to 32 characters of a-z, 0-9 and -, beginning with a letter")] = Field(
        pattern="^[a-z][a-z0-9-]{0,31}$"
    )
    number: Annotated[int, ValueForm(f"a whole number from 1 to {MOST_CELLS - 1}")] = Field(ge=1, lt=MOST_CELLS)
    url: str = Field(repr=False)
    direct_url: str | None = Field(default=None, repr=False)
    read_url: str | None = Field(default=None, repr=False)

    @field_validator("url", "direct_url", "read_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        return database_address(value)


class Cells(BaseSettings):
    """Settings of cells."""

    cells: Annotated[tuple[CellSettings, ...], NoDecode, ValueForm("a list of cells")] = Field(
        default=(),
        json_schema_extra=SECRET,
        description="Further databases with customers of their own, each a table `[[cells]]` of the configuration file "
        f"with {MEMBERS} ([scaling.md](scaling.md)). The variable is a JSON array, its file TOML with such tables. All "
        "processes need the same cells.",
    )

    @field_validator("cells", mode="before")
    @classmethod
    def _are_cells(cls, value: object) -> tuple[CellSettings, ...]:
        cells = tuple(map(_cell, _tables(value), range(1, MOST_CELLS + 1)))
        for member in ("name", "number", "url"):
            values = [getattr(cell, member) for cell in cells]
            for cell in cells:
                if values.count(getattr(cell, member)) > 1:
                    shown = "" if member == "url" else f" {getattr(cell, member)}"
                    raise ValueError(f"two cells have the same {member}{shown}, one of them is {cell.name}")
        if any(cell.name == MAIN for cell in cells):
            raise ValueError(f"a cell has the name {MAIN}, which is that of KEYRACK_DATABASE_URL")
        return cells


def _tables(value: Any) -> Sequence[object]:
    """The tables of a text or a list. A text is TOML or JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip().startswith("[{") else tomllib.loads(value)
        except ValueError as error:
            raise ValueError(f"the value is not TOML with [[cells]], and no JSON array: {error}") from None
    tables: Any = value
    if isinstance(value, dict):
        tables = cast("dict[str, Any]", value).get("cells")
    if not isinstance(tables, list | tuple):
        raise ValueError("the value is not a list of tables [[cells]]")
    found = cast("Sequence[object]", tables)
    if len(found) >= MOST_CELLS:
        raise ValueError(f"there are {len(found)} cells, more than {MOST_CELLS - 1}")
    return found


def _cell(table: object, position: int) -> CellSettings:
    """Raises `ValueError`, whose text repeats no address: it may contain a password."""
    if isinstance(table, CellSettings):
        return table
    if not isinstance(table, Mapping):
        raise ValueError(f"cell {position} is not a table with {MEMBERS}")
    members = cast("Mapping[str, Any]", table)
    name = members.get("name")
    label = f"cell {name}" if isinstance(name, str) and name.isprintable() else f"cell {position}"
    try:
        return CellSettings.model_validate(dict(members))
    except ValidationError as invalid:
        raise ValueError(f"{label}: {_reason(invalid.errors()[0])}") from None


def _reason(error: Mapping[str, Any]) -> str:
    member = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        return f"there is no member {member}; the members are {MEMBERS}"
    if error["type"] == "missing":
        return f"{member} is missing"
    if error["type"] == "value_error":
        return f"{member}: {error['ctx']['error']}"
    form = next((part for part in CellSettings.model_fields[member].metadata if isinstance(part, ValueForm)), None)
    return f"{member} is not {form.words if form else 'text'}"
