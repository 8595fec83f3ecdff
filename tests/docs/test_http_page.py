"""docs/http.md: its commands run unchanged and print the output that the page shows."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from keyrack.core.settings import Settings
from tests.support.people import Person
from tests.support.servers import RunningServer

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/http.md").read_text()
SECTIONS = TEXT.split("\n## ")[1:]
API = re.search(r"^api\(\) {\n.*?^}\n", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"```sh\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture(scope="module")
def told(dsn: str, settings: Settings, alice: Person) -> Iterator[dict[str, str]]:
    """The shell's variables for a server with the setting of the page."""
    origins = re.findall(r"`KEYRACK_CORS_ORIGINS=(\S+)`", TEXT)
    setting = settings.model_copy(update={"cors_origins": origins[0]})
    with RunningServer(setting, dsn, worker=False) as running:
        yield {
            "KEYRACK_URL": running.url + "/v3",
            "KEYRACK_API_KEY": alice.api_key,
            "TOKEN": alice.token,
            "KEYRACK_CUSTOMER_ID": str(alice.customer),
        }


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.splitlines()[0])
def test_the_commands_print_the_output_of_the_page(section: str, told: dict[str, str], tmp_path: Path) -> None:
    blocks = BLOCK.findall(section)
    assert blocks and API is not None
    script = "\n".join(["set -euo pipefail", API[0], *(commands + "echo @@@" for commands, _ in blocks)])
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env=os.environ | told, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    for printed, (_, expected) in zip(ran.stdout.split("@@@"), blocks, strict=False):
        for line in expected.splitlines():
            assert line.removesuffix("...") in printed.replace("\r", ""), printed
