"""Brands: the catalogue of the keyfob tool, with the key forms of each brand and the matching boxes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, LiteralString

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import Id, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint
from keyrack.simulator.demo.drawings import KeyDrawing, draw

app = typer.Typer()

LARGEST = 500_000  # bytes of a drawing
ADDRESS = r"https?://[^\s/]+\S*"

# A brand that already exists keeps its spelling
INSERT: LiteralString = """
with f as (
  insert into key_form (name, image_url, drawing) values ($2, $5, coalesce($6, $7))
  on conflict (name) do update set
    image_url = coalesce(excluded.image_url, case when $6::text is null then key_form.image_url end),
    drawing = coalesce($6, key_form.drawing)
  returning key_form_id
)
insert into brand_key (brand, box_name, box_sap_number, key_form_id)
select coalesce((select brand from brand_key where lower(brand) = lower($1) limit 1), $1), $3, $4, key_form_id from f
returning brand_key_id
"""
LIST: LiteralString = """
select brand_key_id as id, brand, f.name as "keyForm", box_name as "boxName", box_sap_number as "boxSapNumber",
  image_url as "imageUrl", drawing is not null as "hasDrawing"
from brand_key join key_form f using (key_form_id)
where $1::text is null or lower(brand) = lower($1) order by lower(brand), brand_key_id
"""
DELETE: LiteralString = "delete from brand_key where brand_key_id = $1 returning key_form_id"
DELETE_UNUSED: LiteralString = """
delete from key_form f where key_form_id = $1
  and not exists (select from brand_key b where b.key_form_id = f.key_form_id)
"""
TAKEN = "brand_key_brand_key_form_id_box_name_key"


def image_url(value: str | None) -> str | None:
    """An address for a browser."""
    if value is not None and not re.fullmatch(ADDRESS, value):
        raise typer.BadParameter("must be an address that begins with http:// or https://")
    return value


def read_drawing(path: Path) -> str:
    """The SVG of a file. Raises `CommandFailed` if it is not an SVG, or contains scripts or foreign content."""
    try:
        if path.stat().st_size > LARGEST:
            raise CommandFailed(f"{path} is larger than {LARGEST:,} bytes.")
        text = path.read_text("utf-8").removeprefix("\ufeff").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} cannot be read: {error}") from None
    text = re.sub(r"^<\?xml[^>]*\?>\s*", "", text)
    if not re.match(r"(<!--.*?-->\s*)*<svg[\s>]", text, re.DOTALL) or not text.endswith("</svg>") or "\0" in text:
        raise CommandFailed(f"{path} is not an SVG.")
    if re.search(r"<script|<!ENTITY|<foreignObject|\son\w+\s*=|javascript:", text, re.IGNORECASE):
        raise CommandFailed(f"{path} contains scripts or foreign content, which are not allowed.")
    return text


def own_drawing(form: str) -> str:
    """A neutral drawing for a key form without a picture."""
    return draw(KeyDrawing("fob", 2), form)


@command(app, "add")
async def add(
    session: DatabaseSession,
    brand: Annotated[str, typer.Argument(metavar="BRAND", callback=words)],
    key_form: Annotated[str, typer.Option("--key-form", callback=words, help="Name of the key form; created if new.")],
    box_name: Annotated[
        str | None, typer.Option("--box-name", callback=words, help="Name of the matching box.")
    ] = None,
    box_sap_number: Annotated[
        str | None, typer.Option("--box-sap-number", callback=words, help="SAP number of that box.")
    ] = None,
    image_url: Annotated[
        str | None,
        typer.Option("--image-url", callback=image_url, help="Address of the form's picture on another server."),
    ] = None,
    drawing: Annotated[
        Path | None, typer.Option("--drawing", metavar="FILE.svg", help="The form's picture, served by Keyrack.")
    ] = None,
) -> CommandResult:
    """Add a key form to a brand."""
    svg = None if drawing is None else read_drawing(drawing)
    text = f"{brand} already has the key form {key_form!r} with this box."
    neutral = None if image_url else own_drawing(key_form)
    with on_constraint({TAKEN: (Conflict, ErrorCode("key-exists", text))}):
        id = await session.sql.fetchval(INSERT, brand, key_form, box_name, box_sap_number, image_url, svg, neutral)
    return CommandResult({"id": id}, f"Key {id} of {brand} added.")


@command(app, "list", default=DefaultCell.ALL)
async def list_(
    session: DatabaseSession,
    brand: Annotated[str | None, typer.Option("--brand", callback=words, help="Show only this brand.")] = None,
) -> ListResult:
    """List the catalogue."""
    rows = await session.sql.fetch(LIST, brand)
    columns = {
        "ID": "id", "BRAND": "brand", "KEY FORM": "keyForm", "BOX": "boxName", "SAP NUMBER": "boxSapNumber",
        "IMAGE": "imageUrl",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


@command(app, "remove")
async def remove(session: DatabaseSession, id: Id) -> CommandResult:
    """Remove a key from the catalogue, and its form if no other key has it."""
    form = await session.sql.fetchval(DELETE, id)
    if form is None:
        raise CommandFailed(f"There is no key {id} in the catalogue.")
    await session.sql.execute(DELETE_UNUSED, form)
    return CommandResult({"id": id}, f"Key {id} removed from the catalogue.")
