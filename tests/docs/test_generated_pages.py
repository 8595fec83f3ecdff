"""The documents that are made from tables are current, and what documents promise is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from keyrack.core import errors
from keyrack.core.metrics.reference import metrics_markdown
from keyrack.core.settings import ESSENTIAL, Settings, variable
from keyrack.http.openapi.error_catalog import codes
from keyrack.http.openapi.error_reference import codes_markdown
from keyrack.http.openapi.markdown_tables import endpoints_markdown, settings_markdown
from keyrack.http.routes import ALL

ROOT = Path(__file__).parents[2]


def test_endpoints_document_is_current() -> None:
    assert (ROOT / "docs/endpoints.md").read_text() == endpoints_markdown(ALL), "run: make docs"


def test_errors_document_is_current() -> None:
    assert (ROOT / "docs/errors.md").read_text() == codes_markdown(codes(ALL)), "run: make docs"


def test_metrics_document_is_current() -> None:
    assert (ROOT / "docs/metrics.md").read_text() == metrics_markdown(), "run: make docs"


def test_settings_document_is_current() -> None:
    assert (ROOT / "docs/settings.md").read_text() == settings_markdown(), "run: make docs"


def test_the_table_of_dialects_is_current() -> None:
    written = runpy.run_path(str(ROOT / "docs/dialect_table.py"))["page"]()
    assert (ROOT / "docs/webhook-dialects.md").read_text() == written, "run: make docs"


def test_every_setting_has_a_description() -> None:
    assert all(field.description for field in Settings.model_fields.values())


def test_the_settings_page_begins_with_the_essential_settings() -> None:
    essential, tuning = settings_markdown().split("\n## Tuning\n")
    assert re.findall(r"^\| `(KEYRACK_\w+)`", essential, re.MULTILINE) == [variable(name) for name in ESSENTIAL]
    others = [variable(name) for name in Settings.model_fields if name not in ESSENTIAL]
    assert sorted(re.findall(r"^\| `(KEYRACK_\w+)`", tuning, re.MULTILINE)) == sorted(others)


def test_every_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    reasons = (ROOT / "docs/dependencies.md").read_text()
    for requirement in named:
        name = re.split(r"[\[>=<~ ;]", requirement)[0]
        assert re.search(rf"\b{re.escape(name)}\b", reasons), name


def test_no_address_of_a_package_index_and_no_path_of_a_machine_is_in_the_requirements() -> None:
    for file in ROOT.glob("requirements/*.txt"):
        assert not re.search(r"https?:|file:|--index|--find-links", file.read_text())


def test_every_promise_of_the_security_page_has_its_test() -> None:
    text = "".join(page.read_text() for page in sorted((ROOT / "docs/security").glob("*.md")))
    promises = [line for line in text.splitlines() if line.startswith("| ") and "tests/" in line]
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert len(promises) >= 30 and len(named) >= len(promises)
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"


def test_every_status_beyond_the_spec_is_among_the_decisions() -> None:
    """docs/spec-notes.md has the statuses that the spec does not list."""
    listed = {400, 401, 404, 409, 415, 429, 500}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.Refusal)]
    ours = {kind.status for kind in kinds if hasattr(kind, "status")} - listed
    rows = re.findall(r"^\| (\d{3}) \|", (ROOT / "docs/spec-notes.md").read_text().split("## Statuses")[1], re.M)
    assert ours <= {int(status) for status in rows}
