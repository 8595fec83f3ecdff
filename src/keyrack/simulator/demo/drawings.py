"""Drawings of key forms: car keys as SVG, composed of an outline, a blade and buttons.

The drawings are our own work and show no maker's marks. They are deterministic: equal keys have equal drawings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from keyrack.simulator.demo.svg import circle, line, path, rect, shade, steel, thin

Shape = Literal["flip", "smart", "slot", "fob", "blade", "card", "nfc"]
Outline = Literal["square", "round", "pebble", "taper", "waist"]

WIDTH, HEIGHT = 480, 240
MIDDLE = HEIGHT / 2

# Line icons in a box of 24 by 24
ICONS = {
    "lock": "M7 11V8a5 5 0 0 1 10 0v3M5.5 11h13v9h-13zM12 14.5v2.5",
    "unlock": "M7 11V8a5 5 0 0 1 9.6-2M5.5 11h13v9h-13zM12 14.5v2.5",
    "trunk": "M2.5 16.5h2a2.5 2.5 0 0 1 5 0h5a2.5 2.5 0 0 1 5 0h2v-4l-4-1.5-3-3h-6l-3 4h-3zM17.5 10.5l3.5-6",
    "panic": "M12 4 21.5 20h-19zM12 10v4.5M12 17v.5",
    "start": "M17.5 7.5a7 7 0 1 1-11 0M12 3.5v8",
    "door": "M3 20V11l5-7h13v16zM3 11h18M16.5 14.5h2",
}
# Functions of the buttons, by the number of buttons
BUTTONS: dict[int, tuple[str, ...]] = {
    0: (),
    1: ("unlock",),
    2: ("lock", "unlock"),
    3: ("lock", "trunk", "unlock"),
    4: ("lock", "unlock", "trunk", "panic"),
    5: ("lock", "unlock", "trunk", "door", "start"),
}


@dataclass(frozen=True, slots=True)
class KeyDrawing:
    """The look of a key."""

    shape: Shape
    buttons: int = 0
    outline: Outline = "round"
    colour: str = "#23272e"
    accent: str = "#c3c9d2"
    milled: bool = True  # a groove in the blade instead of teeth at its edge


def draw(key: KeyDrawing, title: str) -> str:
    """The drawing of a key."""
    parts = {
        "flip": _flip,
        "smart": _smart,
        "slot": _slot,
        "fob": _fob,
        "blade": _blade_key,
        "card": _card,
        "nfc": _nfc,
    }[key.shape](key)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>{_definitions(key)}"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="18" fill="url(#ground)"/>' + "".join(parts) + "</svg>"
    )


def _definitions(key: KeyDrawing) -> str:
    return (
        "<defs>"
        + _gradient("ground", ("#f7f8fa", "#e3e7ec"))
        + _gradient("body", (shade(key.colour, 0.22), key.colour, shade(key.colour, -0.1 if _is_light(key) else -0.35)))
        + _gradient("steel", ("#f4f6f8", "#c2c8d0", "#8f979f"))
        + _gradient("accent", (shade(key.accent, 0.35), shade(key.accent, -0.15)))
        + "</defs>"
    )


def _gradient(name: str, colours: Sequence[str]) -> str:
    steps = len(colours) - 1
    stops = "".join(f'<stop offset="{i / steps:g}" stop-color="{colour}"/>' for i, colour in enumerate(colours))
    return f'<linearGradient id="{name}" x2="0" y2="1">{stops}</linearGradient>'


# Kinds of keys


def _flip(key: KeyDrawing) -> list[str]:
    body = _outline(key.outline, 52, 64, 214, 112)
    return [
        *_blade(238, 222, 27, key.milled),
        *_body(body),
        circle(236, MIDDLE, 22, fill="url(#accent)"),
        circle(236, MIDDLE, 13, fill=shade(key.colour, -0.2)),
        circle(236, MIDDLE, 5, fill="url(#accent)"),
        *_ring(78, MIDDLE, 11),
        *_row(key, 100, 208, 32),
    ]


def _smart(key: KeyDrawing) -> list[str]:
    body = _outline(key.outline, 96, 52, 288, 136)
    return [
        *_key_ring(92, MIDDLE),
        *_body(body),
        path(_outline(key.outline, 105, 61, 270, 118), fill="none", stroke="url(#accent)", stroke_width="2.5"),
        line(346, 98, 346, 142, stroke="url(#accent)", stroke_width="7", stroke_linecap="round", opacity=".85"),
        *_row(key, 124, 334, 40),
    ]


def _slot(key: KeyDrawing) -> list[str]:
    body = _outline(key.outline, 58, 62, 264, 116)
    return [
        rect(304, 84, 118, 72, 14, fill="url(#steel)"),
        rect(318, 94, 92, 52, 9, fill=shade(key.colour, 0.08)),
        circle(388, MIDDLE, 9, fill=shade(key.colour, -0.5)),
        circle(388, MIDDLE, 5, fill="#8e2a35"),
        *_body(body),
        rect(286, 78, 9, 84, 4.5, fill="url(#accent)"),
        *_ring(86, MIDDLE, 12),
        *_row(key, 112, 276, 38),
    ]


def _fob(key: KeyDrawing) -> list[str]:
    body = _outline(key.outline, 42, 56, 186, 128)
    return [
        *_blade(214, 244, 30, key.milled),
        *_collar(key, 212),
        *_body(body),
        *_ring(68, MIDDLE, 11),
        *_row(key, 92, 214, 36),
    ]


def _blade_key(key: KeyDrawing) -> list[str]:
    body = _outline(key.outline, 56, 60, 150, 120)
    grip = [
        line(x, 94, x, 146, stroke=shade(key.colour, 0.3), stroke_width="4", stroke_linecap="round")
        for x in (146, 162, 178)
    ]
    return [*_blade(196, 246, 30, key.milled), *_collar(key, 196), *_body(body), *_ring(96, MIDDLE, 18), *grip]


def _card(key: KeyDrawing) -> list[str]:
    light = _is_light(key)
    return [
        *_body(_outline("square", 84, 32, 312, 176)),
        rect(84, 62, 312, 12, 0, fill="url(#accent)", opacity=".9"),
        line(104, 184, 214, 184, stroke="#5b6470" if light else "#aab2bd", stroke_width="3", opacity=".6"),
        *_row(key, 112, 368, 46, y=132),
    ]


def _nfc(key: KeyDrawing) -> list[str]:
    arc = {"fill": "none", "stroke": "url(#accent)", "stroke_width": "7", "stroke_linecap": "round"}
    waves = [
        path(f"M{300 + 18 * i} {MIDDLE - 20 - 14 * i}a{34 + 16 * i} {34 + 16 * i} 0 0 1 0 {40 + 28 * i}", **arc)
        for i in range(3)
    ]
    return [
        *_body(_outline("square", 84, 32, 312, 176)),
        rect(118, 92, 56, 44, 8, fill="url(#accent)"),
        path("M118 107h18v14h-18M174 107h-18v14h18M136 92v15M156 92v15M136 121v15M156 121v15", **thin(key.colour)),
        *waves,
        line(118, 176, 236, 176, stroke=shade(key.colour, 0.35), stroke_width="4", stroke_linecap="round"),
    ]


# Parts


def _outline(style: Outline, x: float, y: float, w: float, h: float) -> str:
    """The path of a body in the given box."""
    right, bottom, middle, half = x + w, y + h, y + h / 2, x + w / 2
    if style == "pebble":
        a, b = w * 0.24, h * 0.12
        return (
            f"M{x:g} {middle:g}C{x:g} {y + b:g} {x + a:g} {y:g} {half:g} {y:g}"
            f"S{right:g} {y + b:g} {right:g} {middle:g}S{right - a:g} {bottom:g} {half:g} {bottom:g}"
            f"S{x:g} {bottom - b:g} {x:g} {middle:g}Z"
        )
    if style == "taper":
        d, r = h * 0.13, h * 0.3
        return (
            f"M{x + r:g} {y + d:g}L{right - r:g} {y:g}Q{right:g} {y:g} {right:g} {y + r:g}V{bottom - r:g}"
            f"Q{right:g} {bottom:g} {right - r:g} {bottom:g}L{x + r:g} {bottom - d:g}"
            f"Q{x:g} {bottom - d:g} {x:g} {middle:g}Q{x:g} {y + d:g} {x + r:g} {y + d:g}Z"
        )
    if style == "waist":
        d, r, k = h * 0.1, h * 0.34, w * 0.16
        return (
            f"M{x + r:g} {y:g}C{x + r + k:g} {y:g} {half - k:g} {y + d:g} {half:g} {y + d:g}"
            f"S{right - r - k:g} {y:g} {right - r:g} {y:g}Q{right:g} {y:g} {right:g} {y + r:g}"
            f"V{bottom - r:g}Q{right:g} {bottom:g} {right - r:g} {bottom:g}"
            f"C{right - r - k:g} {bottom:g} {half + k:g} {bottom - d:g} {half:g} {bottom - d:g}"
            f"S{x + r + k:g} {bottom:g} {x + r:g} {bottom:g}"
            f"Q{x:g} {bottom:g} {x:g} {bottom - r:g}V{y + r:g}Q{x:g} {y:g} {x + r:g} {y:g}Z"
        )
    r = min(w, h) * (0.13 if style == "square" else 0.42)
    return (
        f"M{x + r:g} {y:g}H{right - r:g}a{r:g} {r:g} 0 0 1 {r:g} {r:g}V{bottom - r:g}a{r:g} {r:g} 0 0 1 {-r:g} {r:g}"
        f"H{x + r:g}a{r:g} {r:g} 0 0 1 {-r:g} {-r:g}V{y + r:g}a{r:g} {r:g} 0 0 1 {r:g} {-r:g}Z"
    )


def _body(edge: str) -> list[str]:
    return [
        path(edge, fill="#2b3440", opacity=".16", transform="translate(3 8)"),
        path(edge, fill="url(#body)"),
        path(edge, fill="none", stroke="#fff", stroke_opacity=".28", stroke_width="1.5"),
    ]


def _blade(x: float, length: float, width: float, milled: bool) -> list[str]:
    top, bottom, end = MIDDLE - width / 2, MIDDLE + width / 2, x + length
    if milled:
        tip = f"H{end - 14:g}Q{end:g} {top:g} {end:g} {MIDDLE:g}Q{end:g} {bottom:g} {end - 14:g} {bottom:g}"
        step = length * 0.12
        wave = "".join(f"q{step / 2:g} {-8 if i % 2 else 8} {step:g} 0" for i in range(5))
        return [
            path(f"M{x:g} {top:g}{tip}H{x:g}Z", **steel()),
            path(f"M{x + length * 0.28:g} {MIDDLE:g}{wave}H{end - 12:g}", **thin("#767e88", 5)),
        ]
    teeth = "".join(f"l{dx} {dy}" for dx, dy in TEETH)
    shape = f"M{x:g} {top:g}H{end - 20:g}L{end:g} {MIDDLE:g}L{end - 14:g} {bottom:g}{teeth}L{x:g} {bottom:g}Z"
    groove = rect(x, MIDDLE - 5, length - 34, 5, 2.5, fill="#9aa2ab")
    return [path(shape, **steel()), groove]


# From the tip towards the head
TEETH = ((-7, -7), (-10, 0), (-8, 7), (-9, -4), (-9, 4), (-8, -9), (-12, 0), (-9, 9), (-9, -6), (-11, 0), (-7, 6))


def _collar(key: KeyDrawing, x: float) -> list[str]:
    return [
        rect(x, MIDDLE - 24, 30, 48, 6, fill=shade(key.colour, -0.25)),
        rect(x + 24, MIDDLE - 24, 6, 48, 3, fill="url(#accent)"),
    ]


def _ring(x: float, y: float, r: float) -> list[str]:
    """The hole for a key ring."""
    return [circle(x, y, r + 4, fill="url(#accent)"), circle(x, y, r, fill="#e9ecf0")]


def _key_ring(x: float, y: float) -> list[str]:
    return [circle(x - 20, y, 27, fill="none", stroke="url(#steel)", stroke_width="8")]


def _row(key: KeyDrawing, left: float, right: float, size: float, y: float = MIDDLE) -> list[str]:
    """The buttons side by side, centred between two edges."""
    names = BUTTONS[key.buttons]
    size = min(size, (right - left) / max(len(names), 1) - 6)
    gap = min(12.0, (right - left - size * len(names)) / max(len(names), 1))
    x = (left + right - size * len(names) - gap * (len(names) - 1)) / 2
    light = _is_light(key)
    face, line = ("#ffffff", "#39424e") if light else (shade(key.colour, 0.16), "#f3f5f8")
    parts: list[str] = []
    for name in names:
        corner = size * (0.28 if key.outline in ("square", "taper") else 0.5)
        edge = {"stroke": shade(key.colour, -0.5 if not light else -0.2), "stroke_width": "1.5"}
        parts.append(rect(x, y - size * 0.62, size, size * 1.24, corner, fill=face, **edge))
        scale = size * 0.66 / 24
        where = f"translate({x + size * 0.17:g} {y - size * 0.33:g}) scale({scale:.3g})"
        parts.append(path(ICONS[name], transform=where, **thin(line if name != "panic" else "#ff6b5e", 2.2)))
        x += size + gap
    return parts


def _is_light(key: KeyDrawing) -> bool:
    return int(key.colour[1:3], 16) > 0x90
