"""Tokens of the console: text is readable in both themes, and no other file names a colour."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import keyrack

WEB = Path(keyrack.__file__).parent / "console" / "web"
TOKEN = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
TOKENS = {name: colours for name, *colours in TOKEN.findall((WEB / "tokens.css").read_text())}

GROUNDS = ("frame", "surface", "raised", "sunken", "hover", "selected")
STANDINGS = ("good", "warn", "bad", "note", "idle")
READ = [
    *((word, ground) for word in ("ink", "muted", "accent") for ground in GROUNDS),
    *((f"{standing}", f"{standing}-ground") for standing in STANDINGS),
    *(("ink", f"{standing}-ground") for standing in STANDINGS),
    *((standing, ground) for standing in STANDINGS for ground in ("surface", "raised")),
    *(("on-fill", f"{kind}-fill{more}") for kind in ("accent", "danger") for more in ("", "-hover")),
    ("ink", "marked"),
    *(("map-place", f"map-{ground}") for ground in ("land", "sea", "halo", "green", "built", "road", "road-main")),
    ("map-name", "map-halo"), ("map-cluster-word", "map-cluster"),
]  # fmt: skip
SEEN = [
    *((line, ground) for line in ("edge", "focus") for ground in ("surface", "raised", "sunken")),
    *(("focus", ground) for ground in ("frame", "hover", "selected")),
    *((f"map-{sign}", "map-land") for sign in ("car", "moving", "ready", "stale", "quiet")),
    *((f"map-{sign}", "map-land") for sign in ("cluster", "chosen", "track")),
    ("brass", "frame"), ("brass", "surface"), ("accent-fill", "surface"), ("accent-fill", "raised"),
]  # fmt: skip


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_what_is_written_can_be_read(theme: int) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    pairs = {pair: contrast(*(TOKENS[name][theme] for name in pair)) for pair in READ}
    assert {pair: found for pair, found in pairs.items() if found < 4.5} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_what_can_be_filled_in_and_where_the_focus_is_can_be_seen(theme: int) -> None:
    """WCAG 2.2, 1.4.11: 3 to 1."""
    pairs = {pair: contrast(*(TOKENS[name][theme] for name in pair)) for pair in SEEN}
    assert {pair: found for pair, found in pairs.items() if found < 3} == {}


def test_the_contrast_that_is_computed_is_the_standards() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("sheet", sorted(path.name for path in WEB.glob("*.css")))
def test_only_the_tokens_name_colours_and_each_token_is_there(sheet: str) -> None:
    text = (WEB / sheet).read_text()
    if sheet != "tokens.css":
        assert re.findall(r"#[0-9a-fA-F]{3,8}\b(?=[^{]*;)|\b(?:rgb|hsl|oklch)a?\(", text) == []
    known = set(re.findall(r"(--[a-z0-9-]+):", "".join(path.read_text() for path in WEB.glob("*.css"))))
    assert set(re.findall(r"var\((--[a-z0-9-]+)", text)) <= known


def test_no_token_is_idle() -> None:
    every = "".join(path.read_text() for path in WEB.iterdir())
    by_scripts = tuple(re.findall(r"var\((--[a-z-]+)\$\{", every)) + tuple(re.findall(r"`(--[a-z-]+-)\$\{", every))
    idle = {name for name in re.findall(r"(--[a-z0-9-]+):", every) if f"var({name}" not in every}
    assert {name for name in idle if not name.startswith(by_scripts)} == set()


@pytest.mark.parametrize(("ending", "most"), [("css", 15_000), ("js", 16_000)])
def test_what_every_page_loads_is_light(ending: str, most: int) -> None:
    """Compressed, in bytes."""
    head = (WEB.parent / "templates" / "head.html").read_text()
    (names,) = re.findall(r"in \[([^]]+)\]", next(part for part in head.split("endfor") if f'".{ending}"' in part))
    loaded = [f"{name}.{ending}" for name in re.findall(r'"([a-z-]+)"', names)]
    assert len(loaded) > 5
    assert sum(len(gzip.compress((WEB / name).read_bytes(), 9)) for name in loaded) < most
