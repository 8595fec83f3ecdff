"""Stable and preview endpoints are marked the same in every document."""

from __future__ import annotations

import re
from pathlib import Path

from keyrack.http.openapi.markdown_tables import endpoints_markdown
from keyrack.http.routes import ALL
from tests.support.people import web
from tests.support.servers import RunningServer

ROOT = Path(__file__).resolve().parents[2]


def test_the_server_and_its_documents_name_the_same_operations(server: RunningServer) -> None:
    about = web().get(server.url + "/v3").json()
    paths = web().get(server.url + "/openapi.json").json()["paths"]
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method in ("get", "put", "patch", "post", "delete")
    ]
    preview = {name: each["operationId"] for name, each in operations if each["x-keyrack-stability"] == "preview"}
    assert {each["x-keyrack-stability"] for _, each in operations} == {"stable", "preview"}
    assert sorted(about["preview"]) == sorted(preview.values())
    rows = re.findall(r"^\| (\S+) \| `(\S+)` \| [^|]*\*preview\*", endpoints_markdown(ALL), re.MULTILINE)
    assert {f"{method} {path}" for method, path in rows} == set(preview)


def test_the_spec_is_stable() -> None:
    assert not [endpoint.path for endpoint in ALL if endpoint.doc.is_preview and not endpoint.doc.is_extension]


def test_the_page_about_releases_defines_preview() -> None:
    text = (ROOT / "docs/releases.md").read_text()
    assert "## Stable and preview" in text
    assert "[endpoints.md](endpoints.md)" in text and "x-keyrack-stability" in text
