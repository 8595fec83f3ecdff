"""Elements of an SVG drawing, with colours and strokes."""

from __future__ import annotations


def shade(colour: str, by: float) -> str:
    """A lighter (`by` up to 1) or darker (`by` down to -1) colour."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * by if by > 0 else c * (1 + by)):02x}" for c in channels)


def thin(colour: str, width: float = 2) -> dict[str, str]:
    return {
        "fill": "none",
        "stroke": colour,
        "stroke_width": f"{width:g}",
        "stroke_linecap": "round",
        "stroke_linejoin": "round",
    }


def steel() -> dict[str, str]:
    return {"fill": "url(#steel)", "stroke": "#7d8590", "stroke_width": "1.5", "stroke_linejoin": "round"}


def path(d: str, **attributes: str) -> str:
    return f'<path d="{d}"{_written(attributes)}/>'


def rect(x: float, y: float, w: float, h: float, r: float, **attributes: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r:g}"{_written(attributes)}/>'


def circle(x: float, y: float, r: float, **attributes: str) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}"{_written(attributes)}/>'


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str) -> str:
    # A path with a tiny height, because a gradient has no box to fill on a straight line
    return path(f"M{x1:g} {y1:g}L{x2 + 0.01:g} {y2 + 0.01:g}", **attributes)


def _written(attributes: dict[str, str]) -> str:
    return "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
