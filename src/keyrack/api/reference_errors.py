"""Errors of `externalId` and `metadata` that only the database finds.

A unique index decides whether an `externalId` is taken, and a check limits the keys and the size of changed metadata.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import LiteralString

from asyncpg import CheckViolationError, PostgresError, UniqueViolationError

from keyrack.api.exchange import Request
from keyrack.api.schema.declaration import ResourceTable
from keyrack.api.schema.field_errors import at
from keyrack.api.schema.references import EXTERNAL_ID
from keyrack.api.schema.request_body import METADATA, PatchStep, invalid_member
from keyrack.api.schema.text_maps import BYTES, KEYS
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict

TAKEN = ErrorCode(
    "external-id-taken",
    "Another resource of this type has the same externalId.",
    "Use the resource whose `id` the error has, or send another `externalId`.",
)
TOO_LARGE = f"`metadata` must have at most {KEYS} keys, and {BYTES} bytes in its keys and texts together."


class ExternalIdTaken(Conflict):
    """409 for the `externalId` of another resource.

    It has the id of the resource, unless the caller is group-limited.
    """

    def __init__(self, id: int | None, pointer: str = f"/{EXTERNAL_ID}") -> None:
        super().__init__(TAKEN, errors=[FieldError("taken", TAKEN.text, pointer)])
        self.id = id

    def extensions(self) -> dict[str, object]:
        return super().extensions() | ({} if self.id is None else {"id": self.id})


def too_large(action: str, patch: Sequence[PatchStep]) -> BadRequest:
    """The error for metadata that are too large after a patch.

    It points to the last step for metadata.
    """
    numbers = [number for number, step in enumerate(patch) if step.path.split("/")[1] == METADATA]
    fault = FieldError("too-long", TOO_LARGE, f"/{numbers[-1]}/value" if numbers else "")
    return BadRequest(invalid_member(action, METADATA, hint=TOO_LARGE), errors=[fault])


@asynccontextmanager
async def reference_errors(
    request: Request, table: ResourceTable, external_id: str | None, action: str, patch: Sequence[PatchStep] = ()
) -> AsyncGenerator[None]:
    """Translate violations of the table's constraints on both members.

    The block contains the whole transaction of the write: the other resource is looked up after it. In a creation, a
    taken `externalId` takes precedence over every other unique value. Raises `ExternalIdTaken` and `BadRequest`.
    """
    try:
        yield
    except UniqueViolationError as violation:
        if external_id is None:
            raise
        if violation.constraint_name != table.table + "_external_id":
            # A repeated creation breaks another rule first, such as a unique name. The caller needs the id
            holder = None if patch else await _holder(request, table, external_id)
            if holder is None:
                raise
            raise ExternalIdTaken(holder) from None
        place = at(patch, EXTERNAL_ID) if patch else f"/{EXTERNAL_ID}"
        raise ExternalIdTaken(await _holder(request, table, external_id), place) from None
    except CheckViolationError as violation:
        if violation.constraint_name != table.table + "_metadata_check":
            raise
        raise too_large(action, patch) from None


async def _holder(request: Request, table: ResourceTable, external_id: str) -> int | None:
    """The id of the resource that has it.

    None for a group-limited caller, who may not see it.
    """
    if request.scope is not None:
        return None
    sql: LiteralString = (
        "select " + table.key + " from " + table.table + " where customer_id = $1 and external_id = $2"
    )  # fmt: skip
    try:
        return await request.db.fetchval(sql, request.customer, external_id)
    except PostgresError:  # in a batch, whose items are repeated in savepoints and then get the id
        return None
