"""docs/implicit-context.md: each implicit value has a row."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

from keyrack.db.session_settings import OWN
from keyrack.http.request_state import KEY
from tests.docs.code_blocks import ROOT

# The used keys of the ASGI specification and of uvicorn
ASGI = {"type", "headers", "method", "path", "raw_path", "query_string", "http_version", "client"}


@cache
def tables() -> Any:
    """docs/implicit_context.py, which is in no package."""
    spec = spec_from_file_location("implicit_context", ROOT / "docs/implicit_context.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    assert (ROOT / "docs/implicit-context.md").read_text() == tables().page(), "run: make docs"


def test_each_value_is_set_and_read_and_has_a_purpose() -> None:
    state, variables, settings = tables().state_uses(), tables().variable_uses(), tables().setting_uses()
    names = {name for _, name in tables().variables()}
    unused = [name for name in tables().state_fields() if not all(state[name])]
    unused += [name for name in names if not all(variables[name])]
    unused += [name for name in OWN if not all(settings[name])]
    assert (unused, set(settings) ^ set(OWN)) == ([], set())


def test_keyrack_adds_one_key_to_a_scope() -> None:
    keys = set[str]()
    for path in (ROOT / "src/keyrack").rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "scope[" in text else ():
            if isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] in ("scope", "_scope"):
                keys.add(node.slice.value if isinstance(node.slice, ast.Constant) else ast.unparse(node.slice))
    assert keys - ASGI == {"KEY"} and KEY == "keyrack"
