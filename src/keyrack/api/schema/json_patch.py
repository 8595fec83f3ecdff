"""In charge of patches whose members are checked together, as a form of what they may leave behind."""

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
    """What the patch leaves behind of its members; the others are the form's own. `bound` is the one member that may
    be removed: without it there is no bound, so a `replace` with null does not take it away, and is told what it
    `is_one` of. Raises `BadRequest`."""
    removed = {step.path[1:] for step in patch if step.op == "remove"} & {bound}
    given = {name: value for name, value in apply_patch(patch, action).items() if name not in removed}
    if bound in given and given[bound] is None:
        raise BadRequest(invalid_member(action, bound), errors=[FieldError("missing", is_one, at(patch, bound))])
    return validate_body(adapter, json.dumps(given).encode(), action, patch=patch)
