"""Runs axe through the debugger, so that the page keeps its policy.

Uncertain results of axe count as faults.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from typing import Any

import pytest
from playwright.sync_api import Page

LONG = os.environ.get("KEYRACK_LONG")  # make test-console-long
thorough = pytest.mark.skipif(not LONG, reason="make test-console-long runs it")
THEMES, WIDTHS = ("light", "dark"), (320, 1280)


def each_look(test: Any) -> Any:
    """Runs a test in both themes, narrow and wide, for pages with more content than in
    tests/console/test_every_page.py.
    """
    looks = [(theme, width) for theme in THEMES for width in WIDTHS]
    return thorough(pytest.mark.parametrize(("theme", "width"), looks)(test))


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What an open menu or the header covers, what lies over the page, or what is scrolled halfway out of its part, has no
# ground that could be told; tests/console/test_contrast.py computes it. A bar of the board lies over cells, and is a
# larger target
RUN = """
async (rules) => {
  const wanted = {
    runOnly: {type: "tag", values: rules},
    rules: {"label-content-name-mismatch": {enabled: true}},  // experimental at axe, yet WCAG 2.5.3
    resultTypes: ["violations", "incomplete"],
  };
  const found = await axe.run(document, wanted);
  const untold = ["bgOverlap", "elmPartiallyObscured", "elmPartiallyObscuring", "partiallyObscuredNonTabbable"];
  const covered = (node) => node.any.some((check) => untold.includes(check.data?.messageKey));
  const unsure = found.incomplete.map((rule) => ({...rule, nodes: rule.nodes.filter((node) => !covered(node))}));
  return [...found.violations, ...unsure].flatMap((rule) =>
    rule.nodes.map((node) => `${rule.id}: ${node.target.join(" ")}: ${node.failureSummary}`));
}
"""
# No request is pending: swapped elements are paler meanwhile
STILL = "() => !document.querySelector('.htmx-request, .htmx-swapping, .htmx-settling')"


@cache
def _script() -> str:
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text()


def faults(page: Page) -> list[str]:
    """The faults and the uncertain results of axe on the current page, each with its element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_script())
    page.wait_for_function(STILL)
    return page.evaluate(RUN, RULES)
