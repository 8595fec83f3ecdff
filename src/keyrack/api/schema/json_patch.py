"""Patches whose properties are validated together, by a form of the result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter

from keyrack.api.schema.field_errors import at
from keyrack.api.schema.request_body import PatchStep, apply_patch, invalid_member, validate_body
from keyrack.core.error_codes import FieldError
from keyrack.core.errors import BadRequest

Form = TypeVar("Form", bound=BaseModel)


def patched_form(adapter: TypeAdapter[Form], patch: Sequence[PatchStep], action: str, bound: str, is_one: str) -> Form:
    """The changed properties of a patch as a form; all others have the form's defaults.

    `bound` is the only removable property. Without it there is no limit, so a `replace` with null must not remove it;
    the error then has the text `is_one`. Raises `BadRequest`.
    """
    removed = {step.path[1:] for step in patch if step.op == "remove"} & {bound}
    required = {step.path[1:] for step in patch} - {bound}
    given = {name: value for name, value in apply_patch(patch, action, required).items() if name not in removed}
    if bound in given and given[bound] is None:
        raise BadRequest(invalid_member(action, bound), errors=[FieldError("missing", is_one, at(patch, bound))])
    return validate_body(adapter, json.dumps(given).encode(), action, patch=patch)
