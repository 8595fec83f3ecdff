"""Every code block is run unchanged by a test, or listed with a reason."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from keyrack.api.endpoint import Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.services import ReadServices
from keyrack.console.lists import cars as list_of_cars
from keyrack.console.lists.definition import ListColumn
from keyrack.core.settings import Settings, live_updates
from keyrack.fleet import schema
from keyrack.fleet.endpoints import cars
from tests.docs.code_blocks import OWN, PREAMBLE, ROOT, SHELL, SHOWN, WALKS, Block, block, blocks, documents
from tests.support.cases import for_all
from tests.support.servers import SCRIPT_DEADLINE

ALL = [one for document in documents() for one in blocks(document)]


def test_every_fence_begins_or_ends_a_block() -> None:
    for document in documents():
        fences = re.findall(r"^ *```", (ROOT / document).read_text(), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(document)), document


def test_every_block_has_a_language() -> None:
    silent = [one.place for one in ALL if not one.language]
    assert not silent, "label it: sh, json, http, ..., or text for drawings and output"


def test_every_block_is_run_by_a_test() -> None:
    forgotten = [one.place for one in ALL if one.language != "text" and one.run_by is None]
    assert not forgotten, "tests/docs/code_blocks.py says how a block is run"


def test_a_block_without_a_test_is_detected(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```sh\nkeyrack customer list\n```\n\n- an item\n\n  ```\n  drawn\n  ```\n")
    forgotten, silent = blocks(str(page))
    assert (forgotten.place, forgotten.run_by, forgotten.lines) == (f"{page}:3", None, ["keyrack customer list"])
    assert (silent.place, silent.language, silent.text) == (f"{page}:9", "", "drawn\n")


def test_the_test_of_a_document_names_it() -> None:
    """The test of a single block contains the name of the block's mark."""
    for one in ALL:
        if one.mark is None:
            continue
        name, path = one.mark
        test = (ROOT / path).read_text()
        assert re.search(rf"\b{name}\b", test), f"{path} does not run {name}, {one.place}"
        assert Path(one.document).name in test, f"{path} does not read {one.document}"
    for document, path in OWN.items():
        assert document in (ROOT / path).read_text(), document
    assert {*WALKS, *OWN} <= {*documents()}


def test_blocks_that_are_only_shown_exist_and_have_a_test() -> None:
    for (document, beginning), (reason, path) in SHOWN.items():
        shown = [one for one in blocks(document) if one.text.startswith(beginning)]
        assert len(shown) == 1, f"{document}: {beginning} is not there any more"
        assert reason and (ROOT / path).is_file()


@for_all("document", documents())
def test_documents_link_the_block_that_their_commands_need(document: str) -> None:
    """A reader of this page alone must learn the origin of `api` and `$TOKEN`."""
    shell = "\n".join(one.text for one in blocks(document) if one.language in SHELL)
    if re.search(r"^api |\(api |\$TOKEN|\$KEYRACK_URL", shell, re.MULTILINE) and "api() {" not in shell:
        assert PREAMBLE.search((ROOT / document).read_text()), f"{document} does not link the README's first block"


# Blocks of these kinds are run here, in any document


OF_MAKE = [one for one in ALL if one.is_of_make]
OF_SETTINGS = [one for one in ALL if one.is_of_settings]


@pytest.mark.parametrize("commands", OF_MAKE, ids=lambda one: one.place)
def test_make_targets_exist(commands: Block) -> None:
    """Running the targets takes minutes. Other tests run them."""
    script = f'make() {{ command make --dry-run "$@" > "{os.devnull}"; }}\n{commands.text}'
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=SCRIPT_DEADLINE
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("commands", OF_SETTINGS, ids=lambda one: one.place)
def test_exported_settings_reach_keyrack(commands: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block exports valid settings to `keyrack`."""
    script = f"{commands.text}\nenv -0"
    told = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True).stdout
    reached = dict(line.partition("=")[::2] for line in told.split("\0") if line.startswith("KEYRACK_"))
    names = re.findall(r"KEYRACK_\w+(?==)", commands.text)
    for name in names:
        assert name in reached, f"{name} is not exported"
        monkeypatch.setenv(name, reached[name])
    settings = Settings()
    assert {name.removeprefix("KEYRACK_").lower() for name in names} <= settings.model_fields_set


def test_data_blocks_are_well_formed() -> None:
    """This covers blocks that no test runs, too."""
    read = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    data = [one for one in ALL if one.language in read]
    assert data and all(read[one.language](one.text) for one in data)


def test_the_row_in_contributing_is_in_the_source() -> None:
    """CONTRIBUTING.md shows a row of the module that it names."""
    row = block("CONTRIBUTING.md", "row").text.strip()
    assert row in (ROOT / "src/keyrack/fleet/endpoints/cars.py").read_text()


def test_the_examples_in_contributing_fit_their_modules() -> None:
    """CONTRIBUTING.md: `read` and `write` are valid rows, `column` a valid column and `setting` a valid setting."""
    endpoints = Endpoints[ReadServices](Tag("Cars", "Cars."), "cars")
    names = {**vars(cars), "GROUP": schema.GROUP, "endpoints": endpoints}
    for name in ("read", "write"):
        exec(block("CONTRIBUTING.md", name).text, names)  # noqa: S102 - an example of our own page
    assert [row.doc.operation_id for row in endpoints.rows] == ["listGroupsOfCar", "clearCarDescription"]
    column = eval(block("CONTRIBUTING.md", "column").text, vars(list_of_cars))  # noqa: S307 - the same
    assert isinstance(column, ListColumn) and column.value({"hasUnit": True}) in column.words
    setting = dict(vars(live_updates))
    exec(block("CONTRIBUTING.md", "setting").text, setting)  # noqa: S102 - an example of our own page
    assert setting["live_retry_delay_seconds"].description
