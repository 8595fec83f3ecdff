"""The TypeScript client without a server. Node runs its sources as they are, because it ignores types."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.clients.tools import NODE

TESTS = Path(__file__).parent / "typescript"


@pytest.mark.parametrize("name", sorted(path.name for path in TESTS.glob("*.test.ts")))
def test_the_modules_in_node(name: str) -> None:
    ran = subprocess.run(
        [NODE, "--test", "--test-timeout=60000", TESTS / name], capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
