"""Batches of assignments: requested in one statement, in the order of their items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from keyrack.api.batch_items import BatchItem
from keyrack.api.exchange import Request
from keyrack.assignments import submission
from keyrack.assignments.customer_lock import simulate_pending
from keyrack.assignments.endpoints import assignments
from keyrack.assignments.endpoints.assignments import CarBooked
from keyrack.assignments.endpoints.batch_models import AssignmentBatch
from keyrack.assignments.overlaps import OverlapReport, find
from keyrack.assignments.submission import OperationRequest
from keyrack.core.errors import Refusal
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.fleet import group_scope_checks


@dataclass(slots=True)
class BatchSubmission:
    """The state of each item by its place: requested or rejected, its overlaps, and its simulated error.

    `creations` count for the rate limit.
    """

    requests: dict[int, OperationRequest]
    refusals: dict[int, Refusal]
    overlaps: Mapping[int, OverlapReport]
    failures: Mapping[UUID, str | None]
    operations: str  # path prefix of `Operation-Location`

    @property
    def creations(self) -> int:
        return sum(request.kind == "CreateAssignment" for request in self.requests.values())

    def item_result(self, place: int) -> Refusal | dict[str, Any]:
        """The item's result, without its overlaps."""
        if place in self.refusals:
            return self.refusals[place]
        request = self.requests[place]
        done: dict[str, Any] = {"status": 204, "checksum": request.checksum}
        if request.operation not in self.failures:
            return done | {
                "operationId": str(request.operation),
                "operationLocation": self.operations + str(request.operation),
            }
        failure = self.failures[request.operation]
        return done if failure is None else done | {"wouldFail": failure}

    def overlap(self, place: int) -> dict[str, Any]:
        """The `conflicts` and `moreConflicts` of the item's result."""
        refusal = self.refusals.get(place)
        if isinstance(refusal, CarBooked) and refusal.conflicts:
            return {"conflicts": refusal.conflicts}
        report = self.overlaps.get(place)
        if report is None or not (report.entries or report.has_more):
            return {}
        return {"conflicts": report.entries} | ({"moreConflicts": True} if report.has_more else {})


async def ask(
    connection: Connection, request: Request, batch: AssignmentBatch, items: Sequence[BatchItem], settings: Settings
) -> BatchSubmission:
    """Request the operations of all items, in the caller's transaction.

    With overlap detection or a dry run, the caller has locked the customer and nothing is pending.
    """
    batch_submission = BatchSubmission({}, {}, {}, {}, assignments.operations(settings))
    for place, item in enumerate(items):
        wanted = _operation_request(item, settings)
        if isinstance(wanted, Refusal):
            batch_submission.refusals[place] = wanted
        else:
            batch_submission.requests[place] = wanted
    if not batch_submission.requests:
        return batch_submission
    if len(batch_submission.requests) > 1:
        batch_id = uuid4()
        batch_submission.requests = {
            place: replace(operation, batch=batch_id) for place, operation in batch_submission.requests.items()
        }
    references = await submission.submit(connection, request.customer, list(batch_submission.requests.values()))
    for place, there in zip(list(batch_submission.requests), references, strict=True):
        refusal = assignments.rejection(there, request.customer, batch_submission.requests[place])
        if refusal is not None:
            batch_submission.refusals[place] = refusal
            del batch_submission.requests[place]
    if batch.conflicts != "allow":
        await _compare(connection, request, batch_submission, settings, refuse=batch.conflicts == "refuse")
    if batch.dry_run:
        operations = [operation_request.operation for operation_request in batch_submission.requests.values()]
        batch_submission.failures = await simulate_pending(connection, request.customer, operations)
    return batch_submission


def _operation_request(item: BatchItem, settings: Settings) -> OperationRequest | Refusal:
    if item.refusal is not None:
        return item.refusal
    try:
        match item.endpoint.method:
            case "PUT":
                return assignments.creation(item.request, item.value, settings)
            case "PATCH":
                return assignments.change(item.request, item.value, settings)
            case _:
                return assignments.end(item.request)
    except Refusal as refusal:
        return refusal


async def _compare(
    connection: Connection, request: Request, batch_submission: BatchSubmission, settings: Settings, *, refuse: bool
) -> None:
    overlaps = await find(
        connection, request.customer, batch_submission.requests, settings.batch_conflicts, refuse=refuse
    )
    batch_submission.overlaps = await _of_groups(connection, request, overlaps)
    if not refuse:
        return
    gone: list[UUID] = []
    for place, overlap in batch_submission.overlaps.items():
        if overlap.is_new:
            gone.append(batch_submission.requests.pop(place).operation)
            batch_submission.refusals[place] = CarBooked()
    if gone:
        await submission.cancel(connection, request.customer, gone)


async def _of_groups(
    connection: Connection, request: Request, overlaps: Mapping[int, OverlapReport]
) -> Mapping[int, OverlapReport]:
    """The same overlaps, without those of users outside of the caller's groups. These only set `has_more`."""
    if request.scope is None:
        return overlaps
    named = {("userId", int(conflict["userId"])) for overlap in overlaps.values() for conflict in overlap.entries}
    gone = await group_scope_checks.ids_out_of_scope(connection, request.customer, request.scope, named)
    seen: dict[int, OverlapReport] = {}
    for place, overlap in overlaps.items():
        conflicts = [conflict for conflict in overlap.entries if ("userId", conflict["userId"]) not in gone]
        seen[place] = replace(
            overlap, entries=conflicts, has_more=overlap.has_more or len(conflicts) < len(overlap.entries)
        )
    return seen
