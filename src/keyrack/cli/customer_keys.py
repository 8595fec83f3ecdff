"""The name of SDK keys and device keys."""

from __future__ import annotations

from typing import Annotated

import typer

from keyrack.cli.options import words

Name = Annotated[str, typer.Option("--name", callback=words, help="The user of the key.")]
