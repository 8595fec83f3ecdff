"""Ingest: deliveries of units in cars, and of boxes and apps that were offline. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from keyrack.api.auth_schemes import DeviceAuth
from keyrack.api.endpoint import Doc, RawBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.principals import Scope
from keyrack.core.errors import BadRequest
from keyrack.telemetry.json_lines import INVALID_LINES, NotALine, Report
from keyrack.telemetry.samples import ONE
from keyrack.telemetry.services import TelemetryServices

endpoints = Endpoints[TelemetryServices](
    Tag("Ingest", "Data that units, boxes and apps deliver with a device key."),
    DeviceAuth(Scope.TELEMETRY),
    is_extension=True,
)


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
        int | None, Field(description="The number of rejected lines, if `refused` does not list all of them.")
    ] = None
    truncated: Annotated[bool, Field(description="True if `refused` does not list all rejected lines.")] = False


def shown(report: Report) -> dict[str, Any]:
    """A report as JSON."""
    refused = [{"line": line, "reason": reason} for line, reason in report.rejections]
    counts = {"accepted": report.accepted, "duplicates": report.duplicates, "refused": refused}
    return counts | ({"refusedCount": report.refusals, "truncated": True} if report.refusals > len(refused) else {})


@endpoints.post(
    "/ingest/telemetry",
    Doc(
        "deliverTelemetry",
        "Deliver samples of units",
        "Delivers readings of units, one JSON object per line. A line without new readings counts as a duplicate, so"
        " a delivery is safe to repeat. Invalid lines are reported; all others are stored.",
    ),
    body=RawBody(ONE),
    responses=Responses(200, IngestResult),
)
async def deliver(request: Request, services: TelemetryServices) -> Response:
    try:
        report = await services.telemetry.ingest(
            request.customer, request.body, only=request.device and request.device.names
        )
    except NotALine as reason:
        raise BadRequest(INVALID_LINES.with_text(str(reason))) from None
    return answer(shown(report))
