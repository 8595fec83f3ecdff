"""A runner for a document's commands: one shell, block after block, on a running demo."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.docs.code_blocks import OUTPUT, PREAMBLE, ROOT, SHELL, Block, blocks, preamble
from tests.support.servers import SCRIPT_DEADLINE

BREAK = "@@@"  # between the outputs of two blocks
COUNTS = ("status", "done", "refused", "accepted", "duplicates", "line", "item", "seconds")  # numbers that must match
VARYING = re.compile(r"\d|\.\.\.")  # marks texts that differ in each run


@dataclass(frozen=True)
class Printed:
    """The output of a block, and the output that the document shows."""

    block: Block
    text: str
    shown: list[Block]


def environment(home: Path) -> dict[str, str]:
    """The environment of a reader's shell: a home, and none of the tests' settings."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KEYRACK_")}
    return ours | {"HOME": str(home)}


def installed(home: Path) -> dict[str, str]:
    """The same with `keyrack` in the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return environment(home) | {"PATH": path}


def number_from_two(state: Path) -> None:
    """Make the demo's state so that its first customer does not have number 1."""
    env = installed(state.parent) | {"KEYRACK_STATE": str(state)}
    for words in (("migrate",), ("customer", "add", "Another"), ("customer", "remove", "Another", "--yes")):
        subprocess.run(["keyrack", *words], env=env, check=True, capture_output=True, timeout=SCRIPT_DEADLINE)


def walk(document: str, env: dict[str, str], directory: Path, *, mark: str | None = None) -> list[Printed]:
    """Run the shell blocks of a document, or only those with a mark.

    The block that they need is run first if the document refers to it (`PREAMBLE`).
    """
    found = blocks(document)
    steps: list[tuple[Block, list[Block]]] = []
    for one in found:
        if one.language in SHELL and (one.mark is None if mark is None else one.mark and one.mark[0] == mark):
            if not one.is_of_make:
                steps.append((one, []))
        elif one.language in OUTPUT and one.mark is None and steps:
            steps[-1][1].append(one)
    assert steps, f"{document} has no commands"
    first = preamble() if PREAMBLE.search((ROOT / document).read_text()) else ""
    script = first + "".join(f"\necho '{BREAK}'\n{one.text}" for one, _ in steps)
    _, *printed = shell(script, env, directory).split(BREAK + "\n")
    assert len(printed) == len(steps)
    return [Printed(one, text, shown) for (one, shown), text in zip(steps, printed, strict=True)]


def shell(script: str, env: dict[str, str], directory: Path) -> str:
    """Run a script that must succeed, and return its output. Its background processes are ended."""
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as ran:  # fmt: skip
        try:
            output, errors = ran.communicate(timeout=SCRIPT_DEADLINE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ran.pid, signal.SIGKILL)
    assert ran.returncode == 0, f"{output}\n{errors}"
    return output


def check(printed: Printed) -> None:
    """Check that the documented output is the real one, except values that vary."""
    for shown in printed.shown:
        if shown.language == "json":
            expected = json.loads(shown.text)
            assert any(agrees(expected, value) for value in values(printed.text)), f"{shown.place}: {printed.text}"
        else:
            for line in shown.lines:
                assert line.removesuffix("...") in printed.text.replace("\r", ""), f"{shown.place}: {printed.text}"


def values(text: str) -> Iterator[Any]:
    """Yield each object and array of JSON in a text, including nested ones."""
    decoder = json.JSONDecoder()
    place = 0
    while found := re.compile(r"[{\[]").search(text, place):
        try:
            value, place = decoder.raw_decode(text, found.start())
        except ValueError:
            place = found.end()
            continue
        yield from within(value)


def within(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from within(inner)


def agrees(expected: Any, found: Any) -> bool:
    """Whether a value matches the documented one: same members, types and words.

    Numbers, times and ids may differ, except counts.
    """
    if isinstance(expected, dict):
        same = isinstance(found, dict) and expected.keys() == found.keys()
        return same and all(
            found[name] == value if name in COUNTS and isinstance(value, int) else agrees(value, found[name])
            for name, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(found, list) and all(any(agrees(one, other) for other in found) for one in expected)
    if isinstance(expected, bool) or expected is None or found is None:
        return expected is found
    if isinstance(expected, int | float):
        return isinstance(found, int | float)
    return isinstance(found, str) and (expected == found or VARYING.search(expected) is not None)
