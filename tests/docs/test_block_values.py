"""Values that blocks of documents presuppose: variables, customers and ports."""

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


def test_blocks_read_only_variables_of_the_demo_and_settings() -> None:
    """A reader with `demo.env` loaded can run each program of a page."""
    settings = {variable(name) for name in Settings.model_fields}
    known = {*NAMES, *settings, *[variable(name, by_file=True) for name in Settings.model_fields]}
    unknown = {
        f"{block.place}: {name}"
        for document in documents()
        for block in blocks(document)
        for name in variables_read(block.text) - known - set(re.findall(r"(KEYRACK_\w+)=", block.text))
    }
    assert unknown == set()


def test_commands_do_not_name_customers_by_number() -> None:
    """The number is another customer on the reader's server.

    Commands use names, and requests use ids from responses.
    """
    numbered = {
        f"{document}: {match[0]}"
        for document in documents()
        if document != "CHANGELOG.md"  # it describes past requests
        for match in NUMBERED.finditer((ROOT / document).read_text())
    }
    assert numbered == set()


def test_programs_authenticate_as_machine_clients() -> None:
    """The password grant is shown once, after the other one. No page makes an owner for a program."""
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
    assert all(place.startswith(("docs/console.md", "docs/managers.md", "docs/scaling.md")) for place in owners), owners
