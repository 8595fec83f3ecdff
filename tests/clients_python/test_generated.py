"""The package agrees with the source tree."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from keyrack_client import errors, operations

from keyrack.http.openapi.error_catalog import codes
from keyrack.http.routes import ALL

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients/python/src/keyrack_client"


@cache
def generator() -> Any:
    specification = importlib.util.spec_from_file_location("clients_generate", ROOT / "clients/generate.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # for its dataclasses
    specification.loader.exec_module(module)
    return module


@cache
def source() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generator().os, "environ", dict(generator().os.environ))
        return generator().read_source()


def test_the_generated_files_are_up_to_date() -> None:
    stale = [
        str(path.relative_to(ROOT)) for path, text in generator().outputs(source()).items() if path.read_text() != text
    ]
    assert stale == [], "run: make clients"


def test_each_code_has_a_class() -> None:
    entries = [row for row in codes(ALL) if row.status >= 400]
    assert len(entries) > 200
    for row in entries:
        kind = errors.ApiError.by_code[row.code]
        assert getattr(errors, kind.__name__) is kind
        made = errors.ApiError.make(row.status, {"code": row.code, "detail": "Text."}, "r1")
        assert type(made) is kind and str(made) == f"{row.status} {row.code}: Text."


def test_each_operation_is_that_of_the_document() -> None:
    rows = {row.id: row for row in source().operations}
    assert operations.ALL.keys() == rows.keys()
    for id, operation in operations.ALL.items():
        assert (operation.id, operation.method, operation.path) == (id, rows[id].method, rows[id].path)


def methods(module: str) -> Iterator[tuple[str, ast.AsyncFunctionDef | ast.FunctionDef, str]]:
    """The methods that use a row of `operations`, with its id."""
    for found in ast.parse((PACKAGE / module).read_text()).body:
        if isinstance(found, ast.ClassDef):
            for method in found.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    for node in ast.walk(method):
                        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ops":
                            yield f"{found.name}.{method.name}", method, node.attr


@pytest.mark.parametrize("module", ["_sync.py", "_async.py"])
def test_each_method_takes_the_body_of_its_operation(module: str) -> None:
    """`**body` is the schema of the body. For a patch, it is the properties that the patch can change."""
    rows = {row.id: row for row in source().operations}
    seen = list(methods(module))
    assert len(seen) >= 25
    for name, method, operation in seen:
        body = rows[operation].body
        schema = "" if body is None else body.get("items", body).get("$ref", "").rsplit("/", 1)[-1]
        keywords = method.args.kwarg
        if keywords is None or method.name in ("list", "available"):
            given = [ast.unparse(row.annotation) for row in method.args.args if row.annotation]
            is_taken = any(f"t.{schema}" in annotation.split(" | ") for annotation in given)
            assert not schema or is_taken or method.name == "delete", name
            continue
        assert keywords.annotation is not None
        typed = ast.unparse(keywords.annotation).removeprefix("Unpack[t.").removesuffix("]")
        assert typed.replace("Update", "Patch") == schema, name
        members = source().schemas[typed]["properties"].keys()
        own = {row.arg for row in (*method.args.args, *method.args.kwonlyargs)}
        assert not members & own, f"{name}: a property has the name of a parameter"


@pytest.mark.parametrize("text", ["_sync.py", "_async.py"])
def test_each_operation_of_a_method_exists(text: str) -> None:
    assert {operation for _, _, operation in methods(text)} <= {row.id for row in source().operations}
