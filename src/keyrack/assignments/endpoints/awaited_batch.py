"""Batches of assignments that wait: each result contains its operation."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from keyrack.api.exchange import Request, Response
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.read_sql import Select
from keyrack.api.services import ReadServices
from keyrack.webhooks.outcome_payload import OPERATION, OWN_OPERATIONS

PIECE = 200  # operations that one statement reads

# Operations by id, as `GET /operations/{operationId}` returns them
_READ = ReadEndpoint(Select(OPERATION, order_by="{t}.operation_id = any(:id0::uuid[])"), own_rows=OWN_OPERATIONS)


def operations(_request: Request, first: Response) -> Sequence[UUID]:
    """The operations of a response. Other kinds and dry runs have none."""
    results: list[dict[str, Any]] = json.loads(first.body or b"{}").get("results", [])
    return [UUID(result["operationId"]) for result in results if "operationId" in result]


async def show(request: Request, first: Response, pending: Collection[UUID], services: ReadServices) -> Response:
    """The response with each operation.

    The results have the statuses of single requests that waited.
    """
    report: dict[str, Any] = json.loads(first.body or b"{}")
    ids = operations(request, first)
    operations_by_id: dict[str, Any] = {}
    for begin in range(0, len(ids), PIECE):
        read = replace(request, method="GET", ids=(ids[begin : begin + PIECE],), query=b"", if_none_match=None)
        answer = await _READ(read, None, services)
        body = answer.body if answer.parts is None else b"".join([part async for part in answer.parts])
        operations_by_id |= {operation["id"]: operation for operation in json.loads(body or b"[]")}
    for result in report["results"]:
        operation = operations_by_id.get(result.get("operationId", ""))
        if operation is not None:
            result["status"] = 202 if UUID(operation["id"]) in pending else 200
            result["operation"] = operation
    return replace(first, body=json.dumps(report).encode())
