"""Names of browsers and systems from User-Agent headers."""

from __future__ import annotations

import re

LONGEST = 40  # characters of an unknown one
# The first match wins: nearly all of them also contain Chrome, Safari and Mozilla
BROWSERS = (
    (r"\bEdgA?(iOS)?/", "Edge"),
    (r"\bOPR/", "Opera"),
    (r"\bVivaldi/", "Vivaldi"),
    (r"\bSamsungBrowser/", "Samsung Internet"),
    (r"\b(Firefox|FxiOS)/", "Firefox"),
    (r"\bHeadlessChrome/|\bChromium/", "Chromium"),
    (r"\b(Chrome|CriOS)/", "Chrome"),
    (r"\bVersion/.*\bSafari/", "Safari"),
)
SYSTEMS = (
    (r"\biPhone\b", "iPhone"),
    (r"\biPad\b", "iPad"),
    (r"\bAndroid\b", "Android"),
    (r"\bCrOS\b", "ChromeOS"),
    (r"\bWindows NT\b", "Windows"),
    (r"\bMac OS X\b", "macOS"),
    (r"\bLinux\b", "Linux"),
)


def parts(agent: str) -> tuple[str, str]:
    """The browser and the system of a User-Agent, each "" if it is unknown."""
    return _first(BROWSERS, agent), _first(SYSTEMS, agent)


def device_name(agent: str) -> str:
    """The browser and the system of a User-Agent.

    If both are unknown, the beginning of the text.
    """
    return ", ".join(filter(None, parts(agent))) or shortened(agent)


def shortened(agent: str) -> str:
    """The beginning of an unknown User-Agent."""
    return agent if len(agent) <= LONGEST else agent[: LONGEST - 1].rstrip() + "…"


def _first(patterns: tuple[tuple[str, str], ...], agent: str) -> str:
    return next((name for pattern, name in patterns if re.search(pattern, agent)), "")
