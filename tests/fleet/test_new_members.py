"""Adding a member, on a copy of the sources: its declaration, `make migration` and translations are enough."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent

import pytest

from tests.docs.code_blocks import block

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.cluster

# The declaration before which each member is inserted -> the member
MEMBERS = {
    "CARS = ResourceTable(": indent(block("docs/data-model.md", "member-of-a-car").text, "    "),
    "PRODUCTS = ResourceTable(": """
    warranty_ends: Annotated[
        datetime | None,
        MemberInfo(
            N_("End of the warranty"), N_("the end of the warranty"), "When the warranty ends.", None, is_extension=True
        ),
    ] = None
""",
    "GROUPS = ResourceTable(": """
    purpose: Annotated[
        Text, MemberInfo(N_("Purpose"), N_("the purpose"), "What the group is for.", "Team", is_extension=True)
    ] = "Team"
""",
}
WEBHOOK_MEMBERS = {
    "class WebhookRow(Body):": "    receiver_name: Annotated[str, Field(max_length=250)] | None = None",
    "WEBHOOKS = ResourceTable(": """
    receiver_name: Annotated[
        Annotated[str, Field(max_length=250)] | None,
        MemberInfo(N_("Receiver"), N_("the receiver"), "Who receives its messages.", "Dispatch"),
    ] = None
""",
}
GERMAN = {
    "Color": "Farbe", "the color": "die Farbe", "End of the warranty": "Ende der Garantie",
    "the end of the warranty": "das Ende der Garantie", "Purpose": "Zweck", "the purpose": "den Zweck",
    "Trim": "Ausstattung", "the trim": "die Ausstattung", "Receiver": "Empfänger", "the receiver": "den Empfänger",
}  # fmt: skip


class SourceCopy:
    """A copy of the tree, to change and test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        ignored = shutil.ignore_patterns(".*", "node_modules", "__pycache__")
        for name in ("src", "tests", "tools", "docs", "reference", "packages"):
            shutil.copytree(ROOT / name, root / name, ignore=ignored, symlinks=True)
        for name in ("pyproject.toml", "Makefile"):
            shutil.copy(ROOT / name, root / name)

    def declare(self, members: dict[str, str], package: str = "fleet") -> None:
        declarations = self.root / "src" / "keyrack" / package / "declarations.py"
        text = declarations.read_text()
        for before, member in members.items():
            place = text.index(f"\n\n{before}")
            text = text[:place].rstrip("\n") + "\n" + member.strip("\n") + "\n" + text[place:]
        declarations.write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join([str(self.root / "src"), str(self.root)])
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=os.environ | {"PYTHONPATH": paths}, text=True,
            capture_output=True, timeout=500, check=False,
        )  # fmt: skip

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments)

    def migration(self, name: str = "new_members") -> subprocess.CompletedProcess[str]:
        return self.run("tools/new_migration.py", name)


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[SourceCopy]:
    yield SourceCopy(tmp_path / "copy")


def test_a_new_member_needs_a_declaration_a_migration_and_translations(copy: SourceCopy) -> None:
    copy.declare(MEMBERS)
    copy.declare(WEBHOOK_MEMBERS, "webhooks")
    lacking = copy.pytest("tests/fleet/test_declarations.py", "tests/console/test_catalogue.py")
    for sentence in (
        "Car.color is declared in src/keyrack/fleet/declarations.py, but car has no column color. Write its migration",
        "Product.warrantyEnds is declared in",
        "Webhook.receiverName is declared in src/keyrack/webhooks/declarations.py",
        "the trigger function record_car() does not record 'color'",
        "'Color'",
    ):
        assert sentence in lacking.stdout.replace("\nE   ", " "), lacking.stdout[-4000:]
    written = copy.migration()
    assert written.returncode == 0, written.stderr
    assert "Car.color, Group.purpose, Product.warrantyEnds, Webhook.receiverName" in written.stdout
    assert copy.migration("again").stdout.startswith("Nothing to do")
    copy.declare(
        {"CARS = ResourceTable(": MEMBERS["CARS = ResourceTable("].replace("color", "trim").replace("Color", "Trim")}
    )
    assert "Car.trim" in copy.migration("second").stdout
    for check in (("check",), ("format", "--check")):
        linted = copy.run("-m", "ruff", *check, "src/keyrack/db/migrations/versions")
        assert linted.returncode == 0, linted.stdout
    catalogue = copy.root / "src" / "keyrack" / "console" / "catalogue" / "de.po"
    translations = "".join(f'\nmsgid "{english}"\nmsgstr "{german}"\n' for english, german in GERMAN.items())
    catalogue.write_text(catalogue.read_text() + translations)
    passed = copy.pytest(
        "tests/fleet/test_declarations.py", "tests/fleet/new_member_cases.py", "tests/console/test_catalogue.py",
        "tests/changelog/test_column_decisions.py", "tests/db/test_migration_safety.py",
    )  # fmt: skip
    assert passed.returncode == 0, passed.stdout[-6000:]


def test_a_required_member_without_a_default_needs_a_manual_migration(copy: SourceCopy) -> None:
    copy.declare(
        {
            "CARS = ResourceTable(": MEMBERS["CARS = ResourceTable("]
            .replace("Text | None", "Text")
            .replace(" = None", "")
        }
    )
    refused = copy.migration()
    assert refused.returncode == 1
    assert "Car.color is required and has no default, which existing rows need. Give it a default" in refused.stderr


def test_a_member_without_memberinfo_is_rejected_at_import(copy: SourceCopy) -> None:
    copy.declare({"CARS = ResourceTable(": "    color: Text | None = None\n"})
    refused = copy.run("-c", "import keyrack.fleet.declarations")
    assert "TypeError: color has no MemberInfo(...) in its annotation" in refused.stderr
