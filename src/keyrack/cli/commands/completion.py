"""The command that prints a shell's completion script."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.completion import get_completion_script  # pyright: ignore[reportPrivateImportUsage] - Typer exports it nowhere else

app = typer.Typer()


@app.command("completion")
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish")]) -> None:
    """Print the completion script of a shell, for a file that the shell reads at startup.

    For the current session only: eval "$(keyrack completion bash)". `keyrack --install-completion` installs the script
    in the files of the current shell.
    """
    typer.echo(get_completion_script(prog_name="keyrack", complete_var="_KEYRACK_COMPLETE", shell=shell))
