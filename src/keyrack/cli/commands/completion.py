"""The command that prints what makes a shell complete commands, options and their values."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage] - it has no other door

app = typer.Typer()


@app.command("completion")
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish")]) -> None:
    """Print what makes a shell complete commands and options, for a file that the shell reads when it starts.

    For one shell alone: eval "$(keyrack completion bash)". `keyrack --install-completion` writes it into the files
    of the shell that you are in.
    """
    typer.echo(get_completion_script(prog_name="keyrack", complete_var="_KEYRACK_COMPLETE", shell=shell))
