"""In charge of what `status` and `doctor` look like: a verdict, what is wrong with what to do about it, and facts.

Colours are for those who look at a terminal and have not said NO_COLOR; nothing is said by a colour alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable

from keyrack.cli.output import visible
from keyrack.ops.monitoring.findings import Finding, Severity

WIDEST, ELSEWHERE = 110, 100  # columns: lines that are longer are hard to read; where there is no terminal
LABEL = 14  # columns of the names of facts
WORD = 10  # columns of the words for levels

WORDS = {Severity.OK: "ok", Severity.WARNING: "warning", Severity.CRITICAL: "critical", Severity.UNKNOWN: "unknown"}
COLOURS = {Severity.OK: "32", Severity.WARNING: "33", Severity.CRITICAL: "31", Severity.UNKNOWN: "35"}
BOLD = "1"
CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # a terminal, and what it has scrolled away


class Screen:
    """Lines for whoever reads standard output: as wide as the terminal, in colours unless NO_COLOR is set."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        columns = shutil.get_terminal_size((ELSEWHERE, 24)).columns if self.terminal else ELSEWHERE
        self.width = max(40, min(columns, WIDEST))
        self._colours = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def verdict(self, level: Severity, text: str, word: str | None = None) -> str:
        """The first line, which monitoring programs show alone."""
        return f"{self._in(f'{BOLD};{COLOURS[level]}', (word or WORDS[level]).upper())}: {visible(text)}"

    def heading(self, text: str) -> str:
        """What the next lines are about."""
        return self._in(BOLD, text)

    def finding(self, level: Severity, text: str, action: str = "", word: str | None = None) -> list[str]:
        """What is wrong, or right, and below it what to do."""
        lines = self._wrapped(text, WORD, "")
        head, weight = self._in(COLOURS[level], f"{word or WORDS[level]:<{WORD}}"), BOLD if level else ""
        styled_lines = [head + self._in(weight, lines[0]), *(" " * WORD + self._in(weight, line) for line in lines[1:])]
        return styled_lines + [" " * WORD + line for line in self._wrapped(action, WORD, "") if action]

    def findings(self, findings: Iterable[Finding]) -> list[str]:
        return [line for finding in findings for line in self.finding(finding.level, finding.text, finding.action)]

    def fact(self, label: str, *texts: str) -> list[str]:
        """A name, and what there is to say, each on lines of its own."""
        lines = [line for text in texts for line in self._wrapped(text, LABEL, "  ")] or ["-"]
        heads = [self._in(BOLD, f"{label:<{LABEL}}"), *[" " * LABEL] * (len(lines) - 1)]
        return [head + line for head, line in zip(heads, lines, strict=True)]

    def _wrapped(self, text: str, indent: int, deeper: str) -> list[str]:
        """What has blanks in a row stands in columns, and stays as it is where it fits."""
        room, text = self.width - indent, visible(text)
        if len(text) <= room:
            return [text]
        return textwrap.wrap(text, room, subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False) or [
            ""
        ]

    def _in(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if colour and self._colours else text
