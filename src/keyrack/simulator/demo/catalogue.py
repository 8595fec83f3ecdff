"""The catalogue: car brands, their key forms, and the matching box of each form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

from keyrack.db.connection import Connection
from keyrack.simulator.demo.drawings import KeyDrawing, Outline, Shape, draw

STEEL, RED, BLUE, AMBER, GREEN = "#c3c9d2", "#d7263d", "#2f80ed", "#f0b429", "#2fa37a"
BLACK, GRAPHITE, NAVY, BROWN, WHITE = "#17191d", "#23272e", "#27364a", "#33302e", "#eef0f3"


def flip(buttons: int, outline: Outline, accent: str = STEEL, colour: str = GRAPHITE) -> KeyDrawing:
    return KeyDrawing("flip", buttons, outline, colour, accent)


def smart(buttons: int, outline: Outline, accent: str = STEEL, colour: str = BLACK) -> KeyDrawing:
    return KeyDrawing("smart", buttons, outline, colour, accent)


def slot(buttons: int, outline: Outline, accent: str = STEEL, colour: str = BLACK) -> KeyDrawing:
    return KeyDrawing("slot", buttons, outline, colour, accent)


def fob(buttons: int, outline: Outline, *, milled: bool = True, colour: str = GRAPHITE) -> KeyDrawing:
    return KeyDrawing("fob", buttons, outline, colour, STEEL, milled)


def blade(outline: Outline, *, milled: bool = False) -> KeyDrawing:
    return KeyDrawing("blade", 0, outline, BLACK, STEEL, milled)


def card(buttons: int, accent: str = STEEL, colour: str = GRAPHITE) -> KeyDrawing:
    return KeyDrawing("card", buttons, "square", colour, accent)


CATALOGUE: dict[str, tuple[KeyDrawing, ...]] = {
    "Alfa Romeo": (flip(3, "pebble", RED), slot(3, "square", RED)),
    "Audi": (flip(3, "taper"), smart(3, "taper"), slot(3, "taper", RED)),
    "BMW": (smart(4, "waist", BLUE), slot(3, "square"), flip(3, "waist")),
    "BYD": (smart(4, "pebble", BLUE, NAVY), KeyDrawing("nfc", colour=NAVY, accent=STEEL)),
    "Citroën": (flip(3, "round", RED), smart(3, "round", RED), fob(2, "pebble")),
    "Cupra": (smart(3, "taper", AMBER), flip(3, "taper", AMBER)),
    "Dacia": (flip(2, "round", GREEN), card(3, GREEN), blade("round")),
    "DS": (smart(3, "square", AMBER, BROWN),),
    "Fiat": (flip(3, "waist", RED), fob(1, "round"), blade("pebble")),
    "Ford": (flip(3, "square", BLUE), smart(3, "round", BLUE), fob(3, "pebble", milled=False)),
    "Honda": (fob(2, "waist"), smart(3, "waist", RED)),
    "Hyundai": (flip(3, "round"), smart(4, "round", BLUE)),
    "Iveco": (flip(2, "square"), blade("square")),
    "Jaguar": (smart(5, "pebble", GREEN), slot(5, "pebble")),
    "Jeep": (slot(4, "round", GREEN), smart(5, "square", GREEN)),
    "Kia": (flip(3, "pebble"), smart(4, "taper", RED)),
    "Land Rover": (smart(5, "waist", GREEN), slot(5, "round", GREEN)),
    "Lexus": (smart(3, "square", AMBER), card(0, AMBER, BLACK)),
    "MAN": (flip(2, "taper"), blade("square", milled=True)),
    "Maxus": (flip(3, "square", STEEL, NAVY), blade("round", milled=True)),
    "Mazda": (smart(3, "pebble", RED), flip(2, "pebble", RED), card(2, RED)),
    "Mercedes-Benz": (slot(3, "pebble"), smart(3, "pebble", STEEL, GRAPHITE), flip(2, "round")),
    "MG": (flip(3, "waist"), smart(3, "round", RED, NAVY)),
    "MINI": (smart(3, "round", AMBER), slot(2, "round", AMBER)),
    "Mitsubishi": (fob(2, "square"), smart(3, "square", RED)),
    "Nissan": (smart(3, "pebble"), fob(3, "round"), blade("pebble", milled=True)),
    "Opel": (flip(3, "round", AMBER), smart(3, "taper", AMBER), fob(2, "round", milled=False)),
    "Peugeot": (flip(3, "waist", BLUE), smart(3, "waist", BLUE), fob(2, "taper")),
    "Polestar": (smart(4, "square", AMBER, GRAPHITE), KeyDrawing("nfc", colour=WHITE, accent="#5b6470")),
    "Porsche": (smart(4, "pebble", RED, BROWN), slot(3, "pebble", RED)),
    "Renault": (card(4, AMBER), card(3, STEEL, WHITE), flip(3, "pebble", AMBER), blade("taper")),
    "SEAT": (flip(3, "taper", RED), smart(3, "taper", RED)),
    "Skoda": (flip(3, "taper", GREEN), smart(3, "taper", GREEN)),
    "smart": (flip(3, "pebble", STEEL, BROWN), fob(3, "waist", colour=NAVY)),
    "Subaru": (smart(3, "waist", BLUE, NAVY), fob(2, "taper", colour=NAVY)),
    "Suzuki": (fob(2, "pebble", milled=False), smart(2, "round", BLUE)),
    "Tesla": (KeyDrawing("nfc", colour=BLACK, accent=STEEL), smart(3, "pebble", STEEL, "#2a2a2c")),
    "Toyota": (fob(3, "pebble", milled=False), smart(3, "square"), flip(2, "waist")),
    "Volkswagen": (flip(3, "taper", BLUE), smart(3, "taper", BLUE), blade("round")),
    "Volvo": (smart(4, "square", STEEL, BROWN), slot(4, "square", BLUE), smart(0, "pebble", RED, BROWN)),
}

NAMES: dict[Shape, str] = {
    "flip": "flip key",
    "smart": "smart key",
    "slot": "slot key",
    "fob": "blade key with fob",
    "blade": "blade key",
    "card": "card key",
    "nfc": "contactless card",
}
# The box for each key shape: name and article number. A key without buttons needs none
BOXES: dict[Shape, tuple[str, str]] = {
    "flip": ("Box F", "4100110"),
    "smart": ("Box S", "4100120"),
    "slot": ("Box L", "4100130"),
    "fob": ("Box B", "4100140"),
    "card": ("Box C", "4100150"),
}
INSERT_FORMS: LiteralString = """
insert into key_form (name, drawing) select * from unnest($1::text[], $2::text[]) on conflict (name) do nothing
"""
INSERT_KEYS: LiteralString = """
insert into brand_key (brand, box_name, box_sap_number, key_form_id)
select brand, box_name, sap_number, key_form_id
from unnest($1::text[], $2::text[], $3::text[], $4::text[]) with ordinality
  as k (brand, form, box_name, sap_number, position)
join key_form f on f.name = k.form order by position on conflict do nothing
"""


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One row of the catalogue."""

    brand: str
    form: str
    box: tuple[str, str] | None
    key: KeyDrawing


def entries() -> Iterator[CatalogEntry]:
    """The catalogue, row by row."""
    for brand, keys in CATALOGUE.items():
        for key in keys:
            box = BOXES.get(key.shape) if key.buttons else None
            yield CatalogEntry(brand, form_name(brand, key), box, key)


def form_name(brand: str, key: KeyDrawing) -> str:
    """The name of a key form, such as `Audi flip key, 3 buttons`."""
    buttons = "" if key.buttons == 0 else ", 1 button" if key.buttons == 1 else f", {key.buttons} buttons"
    return f"{brand} {NAMES[key.shape]}{buttons}"


async def write_catalogue(connection: Connection) -> None:
    """Write brands, key forms and drawings; existing rows stay unchanged."""
    rows = list(entries())
    forms = [row.form for row in rows]
    await connection.execute(INSERT_FORMS, forms, [draw(row.key, row.form) for row in rows])
    await connection.execute(
        INSERT_KEYS,
        [row.brand for row in rows],
        forms,
        [row.box and row.box[0] for row in rows],
        [row.box and row.box[1] for row in rows],
    )
