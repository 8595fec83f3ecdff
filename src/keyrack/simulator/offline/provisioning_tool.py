"""The provisioning tool: connects a box and the server (docs/key-enrolment.md, "Provisioning")."""

from __future__ import annotations

import base64
from typing import Any

from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.session import Client
from keyrack.offline_keys.link_messages import CarryMessage, Enrol, Provision
from keyrack.simulator.offline.box import VirtualBox


def text(data: bytes) -> str:
    """The base64url text of bytes, as in the API."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def octets(text: str) -> bytes:
    """The bytes of a base64url text."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def enrol(client: Client, box: VirtualBox, at: int) -> str:
    """Enrol a reset box; returns its name. Raises `ApiError`."""
    path = f"/boxes/{box.product}/enrolment"
    given = await client.write("POST", path)
    enrolment = box.enrol(Enrol(octets(given["nonce"])), at).enrolment
    enrolled: dict[str, Any] = await client.write("PUT", path, {"enrolment": text(enrolment)})
    await provision(client, box, at)
    return enrolled["name"]


async def provision(client: Client, box: VirtualBox, at: int) -> None:
    """Provision a box with its key authority and the time. Raises `ApiError`."""
    nonce = text(box.challenge(at).nonce)
    response = await client.get(f"/boxes/{box.product}/provisioning?nonce={nonce}")
    for root in response["roots"]:
        box.carry(CarryMessage(octets(root)), at)
    messages = Provision(*(octets(response[name]) for name in ("provisioning", "keySet", "statusList")))
    if not box.provision(messages, at):
        raise ApiError(f"The box {box.product} rejected the server's provisioning: {box.code.text}.")
