"""The tiers of the suite: `make test` leaves out only files of `make test-cluster`."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.conftest import CLUSTER_FILE

TESTS = Path(__file__).parent


def has_cluster_mark(text: str) -> bool:
    """Whether the module marks all of its tests."""
    return any(
        isinstance(node, ast.Assign)
        and [ast.unparse(target) for target in node.targets] == ["pytestmark"]
        and "pytest.mark.cluster" in ast.unparse(node.value)
        for node in ast.parse(text).body
    )


def test_a_left_out_file_marks_all_of_its_tests() -> None:
    texts = {path: path.read_text() for path in TESTS.rglob("test_*.py")}
    marked = {path for path, text in texts.items() if "pytest.mark.cluster" in text and has_cluster_mark(text)}
    assert {path for path, text in texts.items() if CLUSTER_FILE.search(text)} == marked


def test_a_mark_of_a_single_test_leaves_its_file_in() -> None:
    single = "pytestmark = needed\n\n\n@pytest.mark.cluster\ndef test_slow() -> None: ...\n"
    assert not CLUSTER_FILE.search(single)
    assert not CLUSTER_FILE.search("pytestmark = [needed]\n\n\n@pytest.mark.cluster\ndef test_slow() -> None: ...\n")
    assert CLUSTER_FILE.search("pytestmark = [\n  needed,\n  pytest.mark.cluster,\n]\n")
