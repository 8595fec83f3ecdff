"""Every example in a docstring prints the documented output."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def test_docstring_examples_print_the_documented_output() -> None:
    paths = [path for path in sorted((SOURCE / "keyrack").rglob("*.py")) if "\n    >>> " in path.read_text()]
    assert paths
    failed: list[str] = []
    for path in paths:
        module = import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
        if doctest.testmod(module).failed:
            failed.append(module.__name__)
    assert not failed, failed
