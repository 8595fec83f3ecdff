"""Help and completion: groups below headings, complete sentences on one screen, suggestions, and three shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from keyrack.cli.main import COMMANDS, HEADINGS, application
from tests.support.cases import for_all
from tests.support.servers import DEADLINE

HOME = str(Path(sys.executable).parent)  # where `keyrack` is
HEAVY = {"alembic", "sqlalchemy", "falcon", "jinja2", "uvicorn", "rich", "keyrack.console", "keyrack.http.routes"}
LINES, COLUMNS = 40, 100  # of a screen
ROW = re.compile(r"^  ([a-z][a-z-]*)  +(\S.*(?:\n {6,}\S.*)*)", re.MULTILINE)


def summaries(help: str) -> dict[str, str]:
    """Name -> its summary in a page of help, with line ends removed."""
    return {name: " ".join(words.split()) for name, words in ROW.findall(help)}


def said(name: str, *arguments: str, columns: int = 80) -> Any:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(application(name), [name, *arguments] if name else arguments)


def test_help_is_quick_and_names_every_command_below_its_heading() -> None:
    for columns in ("80", "120"):
        env = os.environ | {"COLUMNS": columns}
        command = [sys.executable, "-X", "importtime", "-m", "keyrack", "--help"]
        ran = subprocess.run(command, capture_output=True, text=True, env=env)
        loaded = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
        assert "keyrack.cli.main" in loaded and not HEAVY & loaded
        assert ran.returncode == 0 and "..." not in ran.stdout.partition("\n")[2]
        rows = summaries(ran.stdout)
        assert rows == {name: what for name, (_, what) in COMMANDS.items()}
        places = [ran.stdout.index(f"\n{heading}:\n") for heading in HEADINGS]
        assert places == sorted(places)
        assert max(map(len, ran.stdout.splitlines())) <= int(columns)


@for_all("name", COMMANDS)
def test_every_command_has_a_help_of_complete_sentences(name: str) -> None:
    result = said(name, "--help")
    assert result.exit_code == 0 and "Usage" in result.output, result.output
    group = result.output.partition("Commands:\n")[2]
    for command, words in summaries(group).items():
        assert words.endswith((".", "?")) and "..." not in words, f"{name} {command}: {words}"
        page = said(name, command, "--help")
        assert page.exit_code == 0
        assert not [words for words in summaries(page.output.partition("Commands:\n")[2]).values() if "..." in words]


# Their output comes from other programs, the server or Typer
NO_JSON = {"database run", "api", "completion"}


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group and its subgroups, with their full names."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for verb, member in command.commands.items():
        yield from leaves(f"{name} {verb}", member)


def pages(name: str, command: Any) -> Iterator[list[str]]:
    """The words of a command, and of all commands below it."""
    yield [name]
    for verb, member in getattr(command, "commands", {}).items():
        yield from ([name, *words] for words in pages(verb, member))


@for_all("name", COMMANDS)
def test_help_of_every_command_fits_one_screen(name: str) -> None:
    """`keyrack --help` alone is longer, because it has a line for each command."""
    found: Any = get_command(application(name))
    for words in pages(name, found.commands[name]):
        lines = said(*words, "-h", columns=COLUMNS).output.splitlines()
        assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS, words


@for_all("name", COMMANDS)
def test_every_command_has_json_and_every_option_a_help(name: str) -> None:
    found: Any = get_command(application(name))
    for leaf, command in leaves(name, found.commands[name]):
        options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
        assert all(one.help for one in options), [one.name for one in options if not one.help]
        assert any("--json" in one.opts for one in options) is (leaf not in NO_JSON), leaf


def test_a_misspelt_command_or_option_gets_a_suggestion() -> None:
    assert "Did you mean 'customer'" in said("custmer").output
    assert "Did you mean 'list'?" in said("customer", "lst").output
    assert "--json" in said("customer", "list", "--jsn").output


def needs(shell: str) -> str:
    found = shutil.which(shell)
    if not found:
        pytest.skip(f"there is no {shell} here")
    return found


def in_shell(shell: str, script: str, *options: str) -> list[str]:
    env = os.environ | {"PATH": f"{HOME}:{os.environ['PATH']}"}
    command = [needs(shell), *options, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout.splitlines()


def in_bash(*words: str) -> list[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""eval "$(keyrack completion bash)"
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_keyrack_completion keyrack; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return in_shell("bash", script, "--norc")


def test_bash_completes_commands_subcommands_options_and_values() -> None:
    assert in_bash("keyrack", "cust") == ["customer"]
    assert in_bash("keyrack", "--config", "file", "customer", "re") == ["remove"]
    assert in_bash("keyrack", "customer", "list", "--js") == ["--json"]
    assert in_bash("keyrack", "completion", "") == ["bash", "zsh", "fish"]
    assert in_bash("keyrack", "settings", "webhook_conc") == ["webhook_concurrency"]


def test_fish_completes_with_summaries() -> None:
    script = 'keyrack completion fish | source; complete -C "keyrack backup re"'
    assert [line.partition("\t")[0] for line in in_shell("fish", script, "--no-config")] == ["restore"]


def test_zsh_completes_commands() -> None:
    zsh = needs("zsh")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(PATH=f"{HOME}:{os.environ['PATH']}", TERM="dumb", PS1="> ")
        os.execv(zsh, ["zsh", "-f", "-i"])  # noqa: S606 - the shell itself is what is tried
    os.write(terminal, b'autoload -Uz compinit; compinit -u -D; eval "$(keyrack completion zsh)"; print rea""dy\n')
    _until(terminal, b"ready\r")
    os.write(terminal, b"keyrack customer rem\t")
    _until(terminal, b"remove")
    os.close(terminal)
    os.waitpid(pid, 0)


def _until(terminal: int, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        assert select.select([terminal], [], [], DEADLINE)[0], seen
        seen += os.read(terminal, 65_536)
