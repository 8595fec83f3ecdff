"""The screens of `status` and `doctor`: a verdict, findings with remedies, and facts.

Colours appear only on a terminal without NO_COLOR, and never carry information alone.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable

from keyrack.cli.output import visible
from keyrack.ops.monitoring.findings import Finding, Severity

WIDEST, ELSEWHERE = 110, 100  # columns: longer lines are hard to read; the width without a terminal
LABEL = 14  # columns of a fact's name
WORD = 10  # columns of a level's word

WORDS = {Severity.OK: "ok", Severity.WARNING: "warning", Severity.CRITICAL: "critical", Severity.UNKNOWN: "unknown"}
COLOURS = {Severity.OK: "32", Severity.WARNING: "33", Severity.CRITICAL: "31", Severity.UNKNOWN: "35"}
BOLD = "1"
CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # clears a terminal and its scrollback


class Screen:
    """Formats lines for the terminal: its width, and colours unless NO_COLOR is set."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        columns = shutil.get_terminal_size((ELSEWHERE, 24)).columns if self.terminal else ELSEWHERE
        self.width = max(40, min(columns, WIDEST))
        self._colours = self.terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def verdict(self, level: Severity, text: str, word: str | None = None) -> str:
        """The first line, the only one that most monitoring programs show."""
        return f"{self._in(f'{BOLD};{COLOURS[level]}', (word or WORDS[level]).upper())}: {visible(text)}"

    def heading(self, text: str) -> str:
        """The heading of the next lines."""
        return self._in(BOLD, text)

    def finding(self, level: Severity, text: str, action: str = "", word: str | None = None) -> list[str]:
        """A finding, with its remedy below it."""
        lines = self._wrapped(text, WORD, "")
        head, weight = self._in(COLOURS[level], f"{word or WORDS[level]:<{WORD}}"), BOLD if level else ""
        styled_lines = [head + self._in(weight, lines[0]), *(" " * WORD + self._in(weight, line) for line in lines[1:])]
        return styled_lines + [" " * WORD + line for line in self._wrapped(action, WORD, "") if action]

    def findings(self, findings: Iterable[Finding]) -> list[str]:
        return [line for finding in findings for line in self.finding(finding.level, finding.text, finding.action)]

    def fact(self, label: str, *texts: str) -> list[str]:
        """A name with its texts, each text on its own lines."""
        lines = [line for text in texts for line in self._wrapped(text, LABEL, "  ")] or ["-"]
        heads = [self._in(BOLD, f"{label:<{LABEL}}"), *[" " * LABEL] * (len(lines) - 1)]
        return [head + line for head, line in zip(heads, lines, strict=True)]

    def _wrapped(self, text: str, indent: int, deeper: str) -> list[str]:
        """The lines of a text. One that fits stays unchanged, because several spaces in a row align columns."""
        room, text = self.width - indent, visible(text)
        if len(text) <= room:
            return [text]
        return textwrap.wrap(text, room, subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False) or [
            ""
        ]

    def _in(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if colour and self._colours else text
