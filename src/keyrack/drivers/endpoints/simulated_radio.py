"""The simulated radio of a demo, for the pages of the app. Extensions of the spec.

A page cannot reach a radio that is simulated, so it writes its fragments here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, driver_of
from keyrack.api.schema.request_body import ExactText, StrictBody
from keyrack.core.base64url import Octets
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound
from keyrack.drivers import simulated_radio
from keyrack.drivers.endpoints.session import TAG
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE

endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

LONGEST_FRAGMENT = 512  # bytes, the longest value of an attribute


class SimulatedNames(StrictBody):
    names: list[str]


class SimulatedWrite(StrictBody):
    """A fragment for a box. Without a link the page connects, and without a fragment it ends the link."""

    link: Annotated[ExactText, Field(max_length=64)] | None = None
    fragment: Annotated[Octets, Field(max_length=LONGEST_FRAGMENT)] | None = None


class SimulatedLink(StrictBody):
    link: str | None
    size: int
    fragments: list[Octets]


@endpoints.get(
    "/drive/api/simulated-radio",
    Doc(
        "listSimulatedBoxes",
        "List boxes near a simulated phone",
        "Returns the names that simulated boxes advertise. Only a demo has a simulated radio; else the response is"
        " 404.",
    ),
    responses=Responses(200, SimulatedNames, errors={404: (NOTHING_HERE,)}),
)
async def names(request: Request, services: DriverServices) -> Response:
    heard = await simulated_radio.names(_socket(services), driver_of(request).customers)
    return answer({"names": heard}, headers=NO_STORE)


@endpoints.post(
    "/drive/api/simulated-radio/{advertisedName}",
    Doc(
        "writeToSimulatedBox",
        "Write to a simulated box",
        "Connects to the box that advertises `advertisedName`, writes a fragment on a `link`, or ends a link. Returns"
        " the box's fragments. `link` is null if there is no link any more. Only a demo has a simulated radio; else the"
        " response is 404.",
    ),
    body=JsonBody(TypeAdapter(SimulatedWrite), "write to simulated box"),
    responses=Responses(200, SimulatedLink, errors={404: (NOTHING_HERE,)}),
    converters={"advertisedName": str},
    is_idempotent=False,
)
async def write(request: Request, body: SimulatedWrite, services: DriverServices) -> Response:
    customers, (name,) = driver_of(request).customers, request.ids
    reply = await simulated_radio.exchange(_socket(services), customers, name, body.link, body.fragment)
    return answer(reply, headers=NO_STORE)


def _socket(services: DriverServices) -> Path:
    """Raises `NotFound` for a server that is no demo."""
    if services.settings.simulated_radio_socket is None:
        raise NotFound(NOTHING_HERE)
    return services.settings.simulated_radio_socket
