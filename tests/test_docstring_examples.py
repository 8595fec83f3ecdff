"""Every example in a docstring prints the documented output."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("package", [ROOT / "src" / "keyrack", ROOT / "benchmarks"], ids=["keyrack", "benchmarks"])
def test_docstring_examples_print_the_documented_output(package: Path) -> None:
    paths = [path for path in sorted(package.rglob("*.py")) if "\n    >>> " in path.read_text()]
    assert paths
    failed: list[str] = []
    for path in paths:
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = import_module(".".join(parts).removesuffix(".__init__"))
        if doctest.testmod(module).failed:
            failed.append(module.__name__)
    assert not failed, failed
