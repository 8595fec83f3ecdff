"""Write the table of dialects into docs/webhook-dialects.md, from their classes: `make docs`."""

from __future__ import annotations

from pathlib import Path

from keyrack.webhooks.dialects import DEFAULT, DIALECTS

PAGE = Path(__file__).parents[1] / "docs/webhook-dialects.md"
START, END = "<!-- dialects: docs/dialect_table.py -->\n", "<!-- /dialects -->\n"


def table() -> str:
    """A row for each dialect."""
    lines = ["| `dialect` | Name | `Content-Type` | Body |", "|---|---|---|---|"]
    for name, dialect in DIALECTS.items():
        note = " (default)" if name == DEFAULT else ""
        lines.append(f"| `{name}`{note} | {dialect.label} | `{dialect.content_type}` | {dialect.hint} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page with the current table."""
    before, rest = PAGE.read_text().split(START)
    _, after = rest.split(END)
    return before + START + table() + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
