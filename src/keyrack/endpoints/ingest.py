"""Ingest: what units in cars, and boxes and apps that were offline, deliver. All ours."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from keyrack.api.endpoint import FROM_DEVICES, Answer, Endpoints, Request, answer
from keyrack.errors import BadRequest
from keyrack.telemetry.ingest import Telemetry
from keyrack.telemetry.lines import NotALine, Report
from keyrack.telemetry.samples import ONE

endpoints = Endpoints("Ingest")


class Refused(BaseModel):
    line: int
    reason: str


class Delivered(BaseModel):
    accepted: int
    duplicates: int
    refused: list[Refused]


def shown(report: Report) -> dict[str, Any]:
    """A report as JSON tells it."""
    refused = [{"line": line, "reason": reason} for line, reason in report.refused]
    return {"accepted": report.accepted, "duplicates": report.duplicates, "refused": refused}


@endpoints.post("/ingest/telemetry", "Deliver samples of units", item=ONE, answers=Delivered, **FROM_DEVICES)
async def deliver(request: Request, telemetry: Telemetry) -> Answer:
    try:
        report = await telemetry.ingest(request.customer, request.body)
    except NotALine as reason:
        raise BadRequest(str(reason)) from None
    return answer(shown(report))
