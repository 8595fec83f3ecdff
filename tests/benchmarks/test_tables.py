"""The command `python -m benchmarks`, and the tables that it writes into documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.__main__ import main
from benchmarks.catalog import BENCHMARKS

from benchmarks import tables

PAGE = """# Page

<!-- benchmark: changes numbered -->

| old |
|---|
| 1 |

<!-- end of benchmark -->

Text.
"""
NEW = "Taken today.\n\n| new |\n|---|\n| 2 |\n"


def test_a_table_is_written_to_its_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    for _ in range(2):  # the second time replaces what the first one wrote
        tables.write(tables.sections(f"before\n<!-- benchmark: changes numbered -->\n{NEW}"), tmp_path)
        assert page.read_text() == PAGE.replace("| old |\n|---|\n| 1 |\n", NEW)


def test_a_table_without_a_place_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    with pytest.raises(tables.TableError, match="No document has the marker of the table 'live streams'"):
        tables.write({"live streams": NEW, "changes numbered": NEW}, tmp_path)
    assert (tmp_path / "page.md").read_text() == PAGE


def test_a_table_without_an_end_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE.replace(tables.END, ""))
    with pytest.raises(tables.TableError, match=r"'changes numbered' in page\.md has no end"):
        tables.write({"changes numbered": NEW}, tmp_path)


def test_two_places_of_a_table_are_rejected(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(PAGE)
    with pytest.raises(tables.TableError, match=r"'changes numbered' is in a\.md and in b\.md"):
        tables.places(tmp_path)


def test_the_origin_has_no_name_or_path_of_the_machine() -> None:
    origin = tables.origin()
    assert Path(sys.prefix).anchor not in origin.replace("`", "")
    assert Path("/proc/sys/kernel/hostname").read_text().strip() not in origin


def test_every_place_belongs_to_a_benchmark() -> None:
    assert {name.partition(" ")[0] for name in tables.places()} == set(BENCHMARKS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foundatoin"], "'foundatoin' is not a benchmark. Did you mean 'foundation'? `--list` shows all."),
        (["--tiny", "--write"], "--write: not allowed with argument --tiny"),
    ],
)
def test_wrong_arguments_are_rejected(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_the_command_runs_a_benchmark() -> None:
    command = [sys.executable, "-m", "benchmarks", "--tiny", "metrics"]
    result = subprocess.run(command, cwd=tables.ROOT, capture_output=True, text=True, check=True)
    assert list(tables.sections(result.stdout)) == ["metrics costs"]
    assert "metrics: complete after" in result.stderr
