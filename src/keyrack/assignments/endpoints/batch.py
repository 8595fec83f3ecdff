"""Batches: many creations, changes and ends of one kind; each item acts like its single request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, LiteralString, cast

from pydantic import TypeAdapter

from keyrack.api import batch_items
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.batch_items import BatchItem, BatchItems
from keyrack.api.endpoint import AwaitedOutcomes, Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import DryRunRollback, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.rate_limits import RateLimit
from keyrack.api.reference_errors import ExternalIdTaken
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.assignments.endpoints import assignments, awaited_batch, batch_assignments
from keyrack.assignments.endpoints.batch_models import (
    OF_KINDS,
    AnyBatch,
    AssignmentBatch,
    BatchCreation,
    BatchReport,
    BatchResult,
    OneBatch,
    UserBatch,
    ways,
)
from keyrack.assignments.overlaps import TOO_MANY as TOO_MANY_OVERLAPS
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode
from keyrack.core.errors import JSON, BadRequest, Refusal, Unavailable
from keyrack.core.metrics.catalog import ERROR_RESPONSES
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Statements
from keyrack.db.worker_wakeup import WORK
from keyrack.fleet import group_scope_checks
from keyrack.fleet.services import FleetServices

endpoints = Endpoints[FleetServices](
    Tag("Batches", "Many changes in one request."),
    CustomerAuth(Permission.BATCH_WRITE, is_group_scoped=True, conditional=OF_KINDS),
    is_extension=True,
)

BATCH = "carry out the batch"
FAULTS = 10  # errors of an item that a result lists
DRY_ITEMS = 20  # a dry run counts as at least this many items: it takes the customer lock even if it has few
TOO_MANY = ErrorCode(
    "too-many-items",
    f"Couldn't {BATCH}. It must have at most {{items}} items.",
    "Split the items into several batches.",
)
NO_OPTIONS = ErrorCode(
    "batch-with-query",
    f"Couldn't {BATCH}. The endpoint takes no query string.",
    "Send `atomic`, `dryRun` and `conflicts` in the body.",
)
TOO_MANY_PASSWORDS = ErrorCode(
    "too-many-passwords",
    f"Couldn't {BATCH}. It must have at most {{users}} users with a password.",
    "Split users of the type `Normal` into several batches.",
)
TOO_LONG = ErrorCode(
    "batch-too-slow",
    "The batch took too long and was rolled back. Send fewer items at once.",
    "Split the items into several batches.",
)
REFUSED = ErrorCode(
    "batch-refused",
    "The batch was not carried out because an item was rejected.",
    "Correct the rejected items in `results`, or send the batch without `atomic`.",
)
UNDONE = ErrorCode(
    "item-undone",
    "The item was not carried out because another item was rejected.",
    "Correct the rejected items, and send the whole batch again.",
)

# Batches of cars, users or groups: those of one kind in one customer run one after another. Each locks rows in the
# order of its items, so two at the same time could deadlock
IN_TURN: LiteralString = "select pg_advisory_xact_lock(hashtext('batch ' || $1), $2)"

_Result = dict[str, Any]


class BatchRefused(Refusal):
    """422 for a whole atomic batch, because of some items. Its JSON body has `results`, like a 200."""

    status = 422
    media_type = JSON

    def __init__(self, report: Mapping[str, Any]) -> None:
        super().__init__(REFUSED)
        self.report = report

    def extensions(self) -> dict[str, object]:
        return {**super().extensions(), **self.report}

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"message": self.text, **self.report}).encode()


@dataclass(frozen=True, slots=True)
class CheckedItem(BatchItems):
    """A batch with checked items, as far as that needs no transaction.

    A rejected item has its error.
    """

    body: OneBatch
    limit: RateLimit  # on assignments

    @property
    def creates_assignments(self) -> bool:
        return isinstance(self.body, AssignmentBatch) and any(
            isinstance(item, BatchCreation) for item in self.body.items
        )


def _needs_hold(batch: CheckedItem) -> bool:
    """Whether the batch needs the customer lock: it changes what operations depend on, or must know what is pending."""
    if isinstance(batch.body, AssignmentBatch):
        return batch.body.dry_run or batch.body.conflicts != "allow"
    return any(item.endpoint.concurrency.serialized == "always" for item in batch.items)


@dataclass(slots=True)
class BatchProgress:
    """The result of each item, and the notifications to send after the commit."""

    results: list[_Result]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    notices: list[LiteralString] = field(default_factory=list[LiteralString])

    @property
    def refused_count(self) -> int:
        return sum(result["status"] >= 400 for result in self.results)

    def report(self, *, is_dry: bool) -> dict[str, Any]:
        return _report(len(self.results) - self.refused_count, self.refused_count, self.results, is_dry=is_dry)

    def undone(self, *, is_dry: bool) -> dict[str, Any]:
        """The report of a batch that was rolled back."""
        other = {"status": 424, "code": UNDONE.code, "detail": UNDONE.text}
        results = [result if result["status"] >= 400 else other for result in self.results]
        return _report(0, self.refused_count, results, is_dry=is_dry)


def _report(done: int, refused: int, results: Sequence[_Result], *, is_dry: bool) -> dict[str, Any]:
    return {"done": done, "refused": refused, **({"dryRun": True} if is_dry else {}), "results": results}


async def checked(request: Request, body: OneBatch, services: FleetServices) -> CheckedItem:
    """Check each item by itself, and replace ids that are out of the caller's scope. A rejected item keeps its error.

    Raises for the whole batch: `BadRequest`, `NotPermitted`, `Unavailable`, `TooManyRequests`.
    """
    if request.query:
        raise BadRequest(NO_OPTIONS)
    if len(body.items) > services.settings.batch_items:
        raise BadRequest(TOO_MANY.format(items=services.settings.batch_items))
    if isinstance(body, UserBatch) and sum(map(_has_password, body.items)) > services.settings.batch_passwords:
        raise BadRequest(TOO_MANY_PASSWORDS.format(users=services.settings.batch_passwords))
    if body.dry_run:
        limit = RateLimit("dry-runs", services.settings.dry_run_rate, services.settings.dry_run_burst)
        await limit.borrow(request.db, request.customer, max(DRY_ITEMS, len(body.items)))
    items: list[BatchItem] = []
    async with _bounded(services.settings):
        for number, (row, ids, value) in enumerate(ways(body)):
            items.append(await batch_items.checked_item(request, row, ids, value, services))
            await batch_items.yield_to_event_loop(number)
    return CheckedItem(
        await group_scope_checks.restrict_items_to_scope(request, items), body, assignments.limit(services.settings)
    )


def _has_password(item: object) -> bool:
    body = cast("object", getattr(item, "body", None))
    return isinstance(body, dict) and cast("dict[str, object]", body).get("type") == "Normal"


@asynccontextmanager
async def _bounded(settings: Settings) -> AsyncGenerator[None]:
    """Limit the time that a batch may take. Raises `Unavailable` when it has passed."""
    clock = asyncio.timeout(settings.batch_seconds)
    try:
        async with clock:
            yield
    except TimeoutError:
        if not clock.expired():
            raise
        raise Unavailable(TOO_LONG) from None


def _bytes(settings: Settings) -> int:
    return settings.batch_bytes


async def _check_permission(statements: Statements, request: Request, batch: CheckedItem) -> None:
    """Raises `TooManyRequests` if nothing is left of the rate limit."""
    if batch.creates_assignments and not batch.body.dry_run:
        await batch.limit.check(statements, request.customer)


@endpoints.post(
    "/batch",
    Doc(
        "runBatch",
        "Run a batch",
        "Runs items of one kind in their order. Each item is equivalent to the single request. With `atomic`, either"
        " all items are carried out or none. With `dryRun`, the response predicts the results and nothing changes."
        " The result of an item has the status of the single request. With `Prefer: wait=N` the response to a batch of"
        " assignments waits for the outcomes of all items.",
    ),
    body=JsonBody(TypeAdapter(AnyBatch), BATCH, max_bytes=_bytes, has_item_checks=True),
    prepare=checked,
    concurrency=Concurrency(serialized="always", precheck=_check_permission, is_serialized_for=_needs_hold),
    responses=Responses(
        200,
        BatchResult,
        errors={
            400: (NO_OPTIONS, TOO_MANY, TOO_MANY_PASSWORDS, TOO_MANY_OVERLAPS),
            422: (REFUSED,),
            429: (RATE_LIMITED,),
            503: (TOO_LONG,),
        },
        item_errors={424: (UNDONE,)},
        error_models={422: BatchReport},
        has_secret=True,  # generated passwords of users
    ),
    has_own_query_check=True,
    awaited=AwaitedOutcomes(awaited_batch.operations, awaited_batch.show, "`results` with the operation of each item"),
)
async def batch(request: Request, batch: CheckedItem, services: FleetServices) -> Response:
    body = batch.body
    async with request.db.transaction() as connection:
        # not the commit: a batch that is reported as undone must not be committed
        async with _bounded(services.settings):
            worked = await _work(connection, request, batch, services)
        refusal = BatchRefused(worked.undone(is_dry=body.dry_run)) if body.atomic and worked.refused_count else None
        if body.dry_run:
            raise DryRunRollback(refusal or answer(worked.report(is_dry=True)))
        if refusal is not None:
            raise refusal
    for notice in worked.notices:
        request.announce(notice)
    return answer(worked.report(is_dry=False), headers=worked.headers)


async def _work(connection: Connection, request: Request, batch: CheckedItem, services: FleetServices) -> BatchProgress:
    await _check_permission(connection, request, batch)
    if _needs_hold(batch):
        await lock_and_flush(connection, request.customer)
    if isinstance(batch.body, AssignmentBatch):
        return await _ask(connection, request, batch, batch.body, services.settings)
    await connection.execute(IN_TURN, batch.body.kind, request.customer)
    return await _do(connection, batch.items, services, is_dry=batch.body.dry_run)


async def _ask(
    connection: Connection, request: Request, batch: CheckedItem, body: AssignmentBatch, settings: Settings
) -> BatchProgress:
    batch_submission = await batch_assignments.ask(connection, request, body, batch.items, settings)
    results = [
        _item_result(batch_submission.item_result(place)) | batch_submission.overlap(place)
        for place in range(len(batch.items))
    ]
    worked = BatchProgress(results, notices=[WORK] if batch_submission.requests else [])
    if batch_submission.creations and not body.dry_run and not (body.atomic and worked.refused_count):
        # Last, because the bucket stays locked until the transaction ends
        worked.headers = await batch.limit.borrow(connection, request.customer, batch_submission.creations)
    return worked


async def _do(
    connection: Connection, todo: Sequence[BatchItem], services: FleetServices, *, is_dry: bool
) -> BatchProgress:
    notices: list[LiteralString] = []
    done = await batch_items.run_items(connection, todo, services, notices.append)
    return BatchProgress([_item_result(outcome, is_dry=is_dry) for outcome in done], notices=notices)


def _item_result(outcome: Response | Refusal | _Result, *, is_dry: bool = False) -> _Result:
    """An item's result: the answer of its single request. A dry run gives no id."""
    if isinstance(outcome, Refusal):
        ERROR_RESPONSES.add(outcome.reason.code, str(outcome.status))
        result: _Result = {"status": outcome.status, "code": outcome.reason.code, "detail": outcome.text}
        if isinstance(outcome, ExternalIdTaken) and outcome.id is not None:
            result["id"] = outcome.id
        return result | ({"errors": [fault.members() for fault in outcome.errors[:FAULTS]]} if outcome.errors else {})
    if isinstance(outcome, Response):
        return {"status": outcome.status} | (json.loads(outcome.body) if outcome.body and not is_dry else {})
    return outcome
