"""Templates say nothing that the policy of the pages forbids, and name only icons that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import keyrack

TEMPLATES = Path(keyrack.__file__).parent / "console" / "templates"
EVERY = sorted(TEMPLATES.rglob("*.html"))
FORBIDDEN = {
    "a style attribute": r"\sstyle\s*=",
    "a style element": r"<style",
    "a script's text": r"<script(?![^>]*\bsrc=)[^>]*>",
    "an event handler": r"\son[a-z]+\s*=",
    "an event handler of htmx": r"\bhx-on",
    "code in an attribute of htmx": r"[\"'\s](js|javascript):",
    "a filter of a trigger": r"hx-trigger\s*=\s*\"[^\"]*\[",
    "another host": r"(?:src|href|action)\s*=\s*\"(?:https?:)?//",
}


@pytest.mark.parametrize("what", FORBIDDEN)
@pytest.mark.parametrize("template", EVERY, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_a_template_says_nothing_that_the_policy_forbids(template: Path, what: str) -> None:
    assert re.search(FORBIDDEN[what], template.read_text()) is None


@pytest.mark.parametrize("template", EVERY, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_a_template_says_what_it_takes(template: Path) -> None:
    assert template.read_text().startswith("{#-")
