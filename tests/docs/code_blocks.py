"""The code blocks of all documents: their languages, and the tests that run them.

A new document needs one line here: in `WALKS` if its blocks run one after another on the demo, or in `OWN` with the
test that runs them. A single block may name its test in the line before it: `<!-- name: tests/x.py ... -->`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]

# Run by test_walkthroughs.py, each document as one walk on the demo
WALKS = (
    "README.md", "docs/batch.md", "docs/bookings.md", "docs/errors.md", "docs/odata.md", "docs/positions.md",
    "docs/simulator.md", "docs/telemetry.md", "docs/webhook-dialects.md", "docs/webhooks.md",
)  # fmt: skip
# Run by separate tests: the document, and the file of the test, which names the document
OWN = {
    "docs/clients.md": "tests/clients/test_clients.py",
    "docs/command-line.md": "tests/docs/test_command_line_page.py",
    "docs/console.md": "tests/docs/test_console_page.py",
    "docs/http.md": "tests/docs/test_http_page.py",
    "docs/moving.md": "tests/docs/test_moving_page.py",
    **dict.fromkeys(
        (
            "docs/tutorials/python.md", "docs/tutorials/javascript.md", "docs/tutorials/from-empty.md",
            "docs/tutorials/drive.md",
            *[f"docs/how-to/{name}.md" for name in ("authenticate", "client-packages", "outcomes", "page", "retry")],
            *[f"docs/how-to/{name}.md" for name in ("sdk", "telemetry")],
            "docs/how-to/troubleshoot.md",
        ),
        "tests/docs/test_tutorials.py",
    ),
}  # fmt: skip
# Blocks that are only shown, by their beginning: the reason, and the test of their testable part
SHOWN = {
    ("docs/high-availability.md", "etcdctl user add root"): (
        "it takes an etcd of a newer release than there is as a package, on three machines",
        "tests/db/replication/test_failover_drill.py",
    ),
    ("docs/install.md", "podman run"): (
        "the image is made and run by `make test-image`, which takes minutes", "tests/packaging/test_container.py",
    ),
    ("docs/maps.md", "pmtiles extract"): (
        "it loads from the Internet; what Keyrack does with the file is tested", "tests/console/test_map_tiles.py",
    ),
    ("docs/traces.md", "podman run"): (
        "the image comes from a registry; a collector of ours is told the same", "tests/core/tracing/test_exporter.py",
    ),
    ("docs/traces.md", "receivers:"): ("it is the configuration of others", "tests/core/tracing/test_exporter.py"),
}  # fmt: skip
# A document has this sentence if its commands need the first block of the README's walk
PREAMBLE = re.compile(
    r"need\sthe\sfirst\sblock\sof\s\[Five minutes with the demo\]\((\.\./)*README\.md#five-minutes-with-the-demo\)"
)

SHELL = ("sh", "bash", "console")
OUTPUT = ("text", "json")  # languages of blocks with the output of preceding commands
BLOCK = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)
MARK = re.compile(r"<!-- (\w[\w-]*): .*?(tests/[\w/]+\.py).*-->\s*$")
SETTING = re.compile(r"(export )?KEYRACK_\w+=\S+$")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    document: str
    line: int  # the line of its fence
    language: str
    text: str
    before: str  # the line before the fence

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def lines(self) -> list[str]:
        """The lines of the block without comments."""
        return [line for line in self.text.splitlines() if line.strip() and not line.startswith("#")]

    @property
    def mark(self) -> tuple[str, str] | None:
        """The name by which a test finds the block, and the test."""
        found = MARK.search(self.before)
        return None if found is None else (found[1], found[2])

    @property
    def is_of_make(self) -> bool:
        return self.language in SHELL and all(re.match(r"make\b", line) for line in self.lines)

    @property
    def is_of_settings(self) -> bool:
        return self.language in SHELL and all(SETTING.match(line) for line in self.lines)

    @property
    def run_by(self) -> str | None:
        """The test that runs the block, or that covers it. None if there is none."""
        if self.mark is not None:
            return self.mark[1]
        for (document, beginning), (_, path) in SHOWN.items():
            if self.document == document and self.text.startswith(beginning):
                return path
        if self.is_of_make or self.is_of_settings:
            return "tests/docs/test_code_blocks.py"
        if self.document in WALKS and self.language in (*SHELL, *OUTPUT, "http"):
            return "tests/docs/test_walkthroughs.py"
        return OWN.get(self.document)


def documents() -> list[str]:
    """Every document with blocks that a reader may run."""
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found]


@cache
def blocks(document: str) -> list[Block]:
    """The blocks of a document, in order."""
    text = (ROOT / document).read_text()
    found: list[Block] = []
    for match in BLOCK.finditer(text):
        above = text[: match.start()].splitlines()
        found.append(Block(document, len(above) + 1, match[2].strip(), dedent(match[3]), above[-1] if above else ""))
    return found


def block(document: str, name: str) -> Block:
    """The block with this mark."""
    return next(one for one in blocks(document) if one.mark is not None and one.mark[0] == name)


def preamble() -> str:
    """The first block of the README's walk: `demo.env`, a token and `api`."""
    return next(one.text for one in blocks("README.md") if "api() {" in one.text)
