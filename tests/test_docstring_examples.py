"""Every example in a docstring prints what it says."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def test_examples_print_what_they_say() -> None:
    paths = [path for path in sorted((SOURCE / "keyrack").rglob("*.py")) if "\n    >>> " in path.read_text()]
    assert paths
    failed: list[str] = []
    for path in paths:
        module = import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"))
        if doctest.testmod(module).failed:
            failed.append(module.__name__)
    assert not failed, failed
