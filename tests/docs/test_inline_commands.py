"""Commands and options within sentences of documents exist."""

from __future__ import annotations

import re
from typing import Any

import typer

from keyrack.cli.main import COMMANDS, application
from tests.docs.code_blocks import BLOCK, ROOT, documents
from tests.support.cases import for_all

NAMED = re.compile(r"`keyrack\s([^`]+)`")
OF_ALL = {"--help", "-h", "--config", "--version", "--install-completion", "--show-completion"}


def found(words: list[str]) -> Any:
    """Return the command and the remaining words. Fails if there is no such command."""
    command: Any = typer.main.get_command(application(words[0]))
    while (known := getattr(command, "commands", None)) and words and not words[0].startswith("-"):
        assert words[0] in known, f"there is no {words[0]!r} in {' '.join(known)}"
        command = known[words.pop(0)]
    return command


# The changelog describes past commands
@for_all("document", [name for name in documents() if name != "CHANGELOG.md"])
def test_inline_commands_exist(document: str) -> None:
    for match in NAMED.finditer(BLOCK.sub("", (ROOT / document).read_text())):
        words = match[1].replace("--config FILE ", "").split()
        if words[0].startswith("-"):
            assert words[0] in OF_ALL
            continue
        assert words[0] in COMMANDS, f"{document}: {match[0]}"
        command = found(words)
        options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | OF_ALL
        for word in words:
            if word.startswith("--") and not hasattr(command, "commands"):
                assert word.partition("=")[0] in options, f"{document}: {match[0]}"
