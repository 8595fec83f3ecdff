"""Runs the commands of a document on a database of their own."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.docs.code_blocks import block
from tests.support.servers import SCRIPT_DEADLINE, migrated_database

# Another customer first, so that commands which take a number reach that one
CUSTOMER = "keyrack customer add Another >&2\nkeyrack customer add 'Example Fleet' >&2\n"
VIEWER = "keyrack manager add kim@example.com --customer 'Example Fleet' --role viewer >&2\n"


def run_block(database_server: str, document: str, name: str, before: str) -> str:
    """The output of a block that the document marks with this name, run after the commands `before`."""
    keyrack = f'keyrack() {{ {sys.executable} -m keyrack "$@"; }}\n'
    with migrated_database(database_server) as dsn:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", keyrack + before + block(document, name).text],
            env=os.environ | {"KEYRACK_DATABASE_URL": dsn}, capture_output=True, text=True, timeout=SCRIPT_DEADLINE,
        )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout
