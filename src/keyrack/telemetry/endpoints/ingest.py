"""Ingest: what units in cars, and boxes and apps that were offline, deliver. All ours."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from keyrack.api.endpoint import FROM_DEVICES, Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.principals import Scope
from keyrack.core.errors import BadRequest
from keyrack.telemetry.ingest import Telemetry
from keyrack.telemetry.json_lines import INVALID_LINES, NotALine, Report
from keyrack.telemetry.samples import ONE

endpoints = Endpoints("Ingest")


class RejectedLine(BaseModel):
    model_config = ConfigDict(title="Refused")

    line: int
    reason: str


class IngestResult(BaseModel):
    model_config = ConfigDict(title="Delivered")

    accepted: int
    duplicates: int
    refused: list[RejectedLine]
    refusedCount: Annotated[
        int | None, Field(description="How many lines were refused, where `refused` does not tell all of them.")
    ] = None
    truncated: Annotated[bool, Field(description="Whether more lines were refused than `refused` tells.")] = False


def shown(report: Report) -> dict[str, Any]:
    """A report as JSON tells it."""
    refused = [{"line": line, "reason": reason} for line, reason in report.refused]
    counts = {"accepted": report.accepted, "duplicates": report.duplicates, "refused": refused}
    return counts | ({"refusedCount": report.refusals, "truncated": True} if report.refusals > len(refused) else {})


@endpoints.post(
    "/ingest/telemetry",
    "Deliver samples of units",
    item=ONE,
    answers=IngestResult,
    device=Scope.TELEMETRY,
    **FROM_DEVICES,
)
async def deliver(request: Request, telemetry: Telemetry) -> Response:
    try:
        report = await telemetry.ingest(request.customer, request.body, only=request.device and request.device.names)
    except NotALine as reason:
        raise BadRequest(INVALID_LINES.saying(str(reason))) from None
    return answer(shown(report))
