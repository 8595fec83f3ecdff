"""A runner for commands of a document on a separate database."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.docs.code_blocks import block
from tests.support.servers import SCRIPT_DEADLINE, migrated_database

# Another customer comes first, so that commands with a number would reach it
CUSTOMER = "keyrack customer add Another >&2\nkeyrack customer add 'Example Fleet' >&2\n"
VIEWER = "keyrack manager add kim@example.com --customer 'Example Fleet' --role viewer >&2\n"


def run_block(database_server: str, document: str, name: str, before: str) -> str:
    """Run the block with this name after the commands `before`, and return its output."""
    keyrack = f'keyrack() {{ {sys.executable} -m keyrack "$@"; }}\n'
    with migrated_database(database_server) as dsn:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", keyrack + before + block(document, name).text],
            env=os.environ | {"KEYRACK_DATABASE_URL": dsn}, capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout
