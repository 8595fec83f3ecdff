"""In charge of batches of assignments: their items are asked for at once, in their order, and told as operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from keyrack.api.batch_items import BatchItem
from keyrack.api.exchange import Request
from keyrack.assignments import submission
from keyrack.assignments.customer_lock import simulate_pending
from keyrack.assignments.endpoints import assignments
from keyrack.assignments.endpoints.batch_models import AssignmentBatch
from keyrack.assignments.overlaps import OverlapReport, find
from keyrack.assignments.submission import OperationRequest
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, Refusal
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.fleet import group_scope_checks

OVERLAP = ErrorCode(
    "assignment-conflict",
    "The car has another assignment within this time.",
    "See in `conflicts` with whom; choose another time or car, or send the batch with `report`.",
)


@dataclass(slots=True)
class BatchSubmission:
    """What has become of the items, by their places: asked for or refused, with what they overlap and how they would
    end. `creations` count for the rate limit."""

    wanted: dict[int, OperationRequest]
    refused: dict[int, Refusal]
    overlaps: Mapping[int, OverlapReport]
    failures: Mapping[UUID, str | None]
    operations: str  # where to ask for outcomes

    @property
    def creations(self) -> int:
        return sum(one.kind == "CreateAssignment" for one in self.wanted.values())

    def told(self, place: int) -> Refusal | dict[str, Any]:
        """The item's result beside its overlaps."""
        if place in self.refused:
            return self.refused[place]
        one = self.wanted[place]
        done: dict[str, Any] = {"status": 204, "checksum": one.checksum}
        if one.operation not in self.failures:
            return done | {"operationId": str(one.operation), "operationLocation": self.operations + str(one.operation)}
        failure = self.failures[one.operation]
        return done if failure is None else done | {"wouldFail": failure}

    def overlap(self, place: int) -> dict[str, Any]:
        """With whom the item overlaps."""
        found = self.overlaps.get(place)
        if found is None or not (found.told or found.more):
            return {}
        return {"conflicts": found.told} | ({"moreConflicts": True} if found.more else {})


async def ask(
    connection: Connection, request: Request, batch: AssignmentBatch, items: Sequence[BatchItem], settings: Settings
) -> BatchSubmission:
    """Ask for what the items want, in the caller's transaction. With conflicts or a dry run it holds the customer, and
    nothing is pending."""
    asked = BatchSubmission({}, {}, {}, {}, assignments.operations(settings))
    for place, item in enumerate(items):
        wanted = _wanted(item)
        if isinstance(wanted, Refusal):
            asked.refused[place] = wanted
        else:
            asked.wanted[place] = wanted
    if not asked.wanted:
        return asked
    found = await submission.submit(connection, request.customer, list(asked.wanted.values()))
    for place, there in zip(list(asked.wanted), found, strict=True):
        if (refusal := assignments.absent(there)) is not None:
            asked.refused[place] = refusal
            del asked.wanted[place]
    if batch.conflicts != "allow":
        await _compare(connection, request, asked, settings, refuse=batch.conflicts == "refuse")
    if batch.dry_run:
        operations = [one.operation for one in asked.wanted.values()]
        asked.failures = await simulate_pending(connection, request.customer, operations)
    return asked


def _wanted(item: BatchItem) -> OperationRequest | Refusal:
    if item.refusal is not None:
        return item.refusal
    try:
        match item.endpoint.method:
            case "PUT":
                return assignments.creation(item.request, item.value)
            case "PATCH":
                return assignments.change(item.request, item.value)
            case _:
                return assignments.end(item.request)
    except Refusal as refusal:
        return refusal


async def _compare(
    connection: Connection, request: Request, asked: BatchSubmission, settings: Settings, *, refuse: bool
) -> None:
    found = await find(connection, request.customer, asked.wanted, settings.batch_conflicts, refuse=refuse)
    asked.overlaps = await _of_groups(connection, request, found)
    if not refuse:
        return
    gone: list[UUID] = []
    for place, overlap in asked.overlaps.items():
        if overlap.is_new:
            gone.append(asked.wanted.pop(place).operation)
            asked.refused[place] = Conflict(OVERLAP)
    if gone:
        await submission.cancel(connection, request.customer, gone)


async def _of_groups(
    connection: Connection, request: Request, found: Mapping[int, OverlapReport]
) -> Mapping[int, OverlapReport]:
    """The same with whom exists for who asks: the others are told as more."""
    if request.scope is None:
        return found
    named = {("userId", int(told["userId"])) for overlap in found.values() for told in overlap.told}
    gone = await group_scope_checks.ids_out_of_scope(connection, request.customer, request.scope, named)
    seen: dict[int, OverlapReport] = {}
    for place, overlap in found.items():
        told = [one for one in overlap.told if ("userId", one["userId"]) not in gone]
        seen[place] = replace(overlap, told=told, more=overlap.more or len(told) < len(overlap.told))
    return seen
