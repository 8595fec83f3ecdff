"""Print the help of every command and subcommand: `python -m tests.golden.help_pages`.

All pages come from one process, because a process for each command takes half a second.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys

COMMAND = re.compile(r"^  ([a-z][a-z0-9-]*)(?:  |$)", re.MULTILINE)
SECTION = re.compile(r"^(\S.*):$\n((?:^(?: .*)?$\n?)*)", re.MULTILINE)


def read_page(words: list[str]) -> str:
    """The help of the command, as `python -m keyrack` prints it."""
    output = io.StringIO()
    sys.argv = ["keyrack", *words, "--help"]
    with contextlib.redirect_stdout(output):
        try:
            runpy.run_module("keyrack", run_name="__main__")
        except SystemExit as error:
            if error.code:
                raise RuntimeError(f"{' '.join(sys.argv)} ended with status {error.code}.") from None
    return output.getvalue()


def find_subcommands(page: str) -> list[str]:
    """The commands that a page lists, in its order; none if it is not the page of a group."""
    if "COMMAND [ARGS]..." not in page:
        return []
    lists = [rows for title, rows in SECTION.findall(page) if title not in ("Options", "Arguments")]
    return [name for rows in lists for name in COMMAND.findall(rows)]


def print_pages(words: list[str]) -> None:
    page = read_page(words)
    print(f"$ {' '.join(['keyrack', *words, '--help'])}\n{page.rstrip()}\n")
    for name in find_subcommands(page):
        print_pages([*words, name])


if __name__ == "__main__":
    print_pages([])
