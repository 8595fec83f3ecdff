"""The values that blocks of documents take for granted: variables, customers and ports."""

from __future__ import annotations

import re

from keyrack.core.settings import Settings, variable
from keyrack.simulator.demo import NAMES
from tests.docs.code_blocks import ROOT, SHELL, blocks, documents

READ = re.compile(r"""(?:\$\{?|environ(?:\.get\(|\[)["']|process\.env(?:\.|\[["']))(KEYRACK_\w+)""")
NUMBERED = re.compile(r"(?:--customer|--managed-by|--source-customer|CUSTOMER(?:_ID)?=|Customer-ID:)[ =\"']*\d+")
GRANT = re.compile(r"grant_type|PasswordGrant|ClientGrant")
DESTRUCTURED = re.compile(r"const \{([^}]*)\} = process\.env")


def variables_read(text: str) -> set[str]:
    """The variables that a program or a shell command reads."""
    destructured = " ".join(DESTRUCTURED.findall(text))
    return {*READ.findall(text), *re.findall(r"KEYRACK_\w+", destructured)}


def test_blocks_read_variables_that_the_demo_writes_or_that_are_settings() -> None:
    """A reader who has loaded `demo.env` can run each program of a page."""
    settings = {variable(name) for name in Settings.model_fields}
    known = {*NAMES, *settings, *[variable(name, by_file=True) for name in Settings.model_fields]}
    unknown = {
        f"{block.place}: {name}"
        for document in documents()
        for block in blocks(document)
        for name in variables_read(block.text) - known - set(re.findall(r"(KEYRACK_\w+)=", block.text))
    }
    assert unknown == set()


def test_no_command_takes_a_customer_by_its_number() -> None:
    """A number is another customer on the reader's server: commands take names, requests the id that was asked for."""
    numbered = {
        f"{document}: {match[0]}"
        for document in documents()
        if document != "CHANGELOG.md"  # it describes requests of the past
        for match in NUMBERED.finditer((ROOT / document).read_text())
    }
    assert numbered == set()


def test_programs_get_their_tokens_as_machine_clients() -> None:
    """The password grant is shown once, below the other one; no page makes an owner for a program."""
    shown = [
        (block.document, "client_credentials" in block.text)
        for document in documents()
        for block in blocks(document)
        if block.language in (*SHELL, "python", "js", "ts") and GRANT.search(block.text)
    ]
    assert ("README.md", True) in shown and ("docs/clients.md", True) in shown
    by_password = [document for document, is_client in shown if not is_client]
    assert by_password == ["docs/how-to/authenticate.md"]
    assert [is_client for document, is_client in shown if document == by_password[0]] == [True, False]
    owners = [block.place for document in documents() for block in blocks(document) if "--role owner" in block.text]
    assert all(place.startswith(("docs/console.md", "docs/managers.md")) for place in owners), owners
