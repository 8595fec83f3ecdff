"""The steps of a provisioning tool (docs/key-enrolment.md, "Provisioning").

Each step can be repeated, and so can all of them.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from keyrack.cli.box_link import BoxLink, NoReply, UnknownReply
from keyrack.cli.output import CommandFailed
from keyrack.core.api_client.session import Client
from keyrack.core.base64url import base64url, octets
from keyrack.offline_keys import cose, link_messages, phone
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import (
    VERSIONS,
    AcceptedMessage,
    Challenge,
    Enrol,
    EnrolledMessage,
    Provision,
    Result,
    VersionsMessage,
)
from keyrack.offline_keys.message_fields import ENROLMENT, PROVISIONING, ROOT

ATTEMPTS = 3  # of each step, if the box does not reply
NONCE_SECONDS = 10  # for which a nonce of the box lives
MOST_TIME = 253_402_300_799  # the last second of the year 9999, which is the latest one that can be shown
RESET = "Reset the box, and run the command again"
REFUSED = "The box refuses the provisioning of the server. Run the command again. If it refuses again, reset the box."

Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExpectedKeys:
    """The thumbprints that a person has read, each in base64url."""

    thumbprint: str | None = None  # on the box
    replaces: str | None = None  # of the pending enrolment that ends


@dataclass(frozen=True, slots=True)
class BoxState:
    """The state of the box and of its enrolment at the end."""

    thumbprint: str
    challenge: Challenge
    is_enrolled_now: bool  # by this run
    server: dict[str, Any]

    @property
    def pending(self) -> dict[str, Any] | None:
        """The pending enrolment, if there is one."""
        return self.server.get("pending")

    @property
    def is_pending(self) -> bool:
        """Whether the pending enrolment is that of this box."""
        return self.pending is not None and self.pending["thumbprint"] == self.thumbprint


class BoxEnroller:
    """A tool between a box and the server."""

    def __init__(self, client: Client, link: BoxLink, product: int, tell: Tell) -> None:
        self._client, self._link, self._tell = client, link, tell
        self._path = f"/boxes/{product}"
        self._product = product

    async def run(self, expected: ExpectedKeys) -> BoxState:
        """Enrol and provision the box. The box of this product stays enrolled.

        Raises `CommandFailed`, `ApiError`.
        """
        state = await self._server_state()
        await self._repeated(self._link.begin)
        challenge = await self._repeated(self._hello)
        if challenge.name:
            self._tell(f"The box is {challenge.name} already.")
            thumbprint = self._known(challenge, state, expected)
        else:
            thumbprint = await self._enrol(expected)
        await self._repeated(lambda: self._provision(thumbprint))
        after, server = await self._repeated(self._hello), await self._server_state()
        names = {enrolment.get("name") for enrolment in (server, server.get("pending") or {})}
        if after.name not in names or after.time > MOST_TIME:
            raise CommandFailed(f"The box does not have the name or the time of the provisioning. {RESET}.")
        return BoxState(thumbprint, after, not challenge.name, server)

    async def _server_state(self) -> dict[str, Any]:
        """The enrolment at the server; empty before the first one."""
        answer = await self._client.call("GET", f"{self._path}/enrolment")
        error = answer.error() if answer.status >= 300 else None
        return {} if error is not None and error.code == "box-not-enrolled" else answer.checked()

    async def _repeated(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of a step. Without a reply it is repeated on a new link. Raises `CommandFailed`."""
        for attempt in range(ATTEMPTS):
            try:
                if attempt > 0:
                    self._tell("The box does not reply. Trying again on a new link.")
                    await self._link.begin()
                return await step()
            except NoReply:
                pass
            except UnknownReply:
                raise CommandFailed("The reply is not that of a box. Look whether it is the right port.") from None
        raise CommandFailed(
            "The box does not reply. Look whether it has power, whether it is the right port, and whether a phone"
            " is connected to the box."
        )

    async def _hello(self) -> Challenge:
        """The challenge of the box. Raises `NoReply`, `UnknownReply`, `CommandFailed`."""
        reply = await self._link.exchange(link_messages.hello(), Challenge, VersionsMessage, Result)
        match reply:
            case Challenge():
                return reply
            case VersionsMessage(versions):
                raise CommandFailed(
                    f"The box speaks version {_list(versions)} of the protocol, this program {_list(VERSIONS)}."
                    " Update the older one."
                )
            case _:
                raise CommandFailed(f"The box refuses each message: its memory is damaged. {RESET}.")

    def _known(self, challenge: Challenge, state: dict[str, Any], expected: ExpectedKeys) -> str:
        """The thumbprint of the box that is enrolled already. Raises `CommandFailed`."""
        for enrolment in (state, state.get("pending") or {}):
            if enrolment.get("name") == challenge.name:
                if expected.thumbprint not in (None, enrolment["thumbprint"]):
                    raise CommandFailed(
                        f"The server knows {challenge.name} by the thumbprint {enrolment['thumbprint']}, not by"
                        f" {expected.thumbprint}. {RESET}."
                    )
                return enrolment["thumbprint"]
        raise CommandFailed(
            f"The box obeys another authority: it is {challenge.name}, which is no enrolment of product"
            f" {self._product}. {RESET}."
        )

    async def _enrol(self, expected: ExpectedKeys) -> str:
        """Enrol the box; returns the thumbprint of its key. Raises `CommandFailed`, `ApiError`."""
        self._tell("Enrolling the box.")
        nonce = octets((await self._client.write("POST", f"{self._path}/enrolment"))["nonce"])
        reply = await self._repeated(lambda: self._link.exchange(Enrol(nonce), EnrolledMessage, Result))
        if isinstance(reply, Result):
            raise CommandFailed("The box refuses to enrol: it has had too many messages. Try again in a minute.")
        try:
            thumbprint = base64url(cose.read(reply.enrolment, ENROLMENT).claims["cnf"].thumbprint)
        except MessageRefused as refused:
            raise CommandFailed(f"The box has sent an invalid enrolment ({refused.code.text}).") from None
        self._tell(f"The box has a key with the thumbprint {thumbprint}.")
        if expected.thumbprint not in (None, thumbprint):
            raise CommandFailed(
                f"The box on the wire has the thumbprint {thumbprint}, not {expected.thumbprint}. It is another box."
            )
        body = {
            "enrolment": base64url(reply.enrolment),
            "thumbprint": expected.thumbprint,
            "replaces": expected.replaces,
        }
        await self._client.write(
            "PUT", f"{self._path}/enrolment", {name: value for name, value in body.items() if value is not None}
        )
        return thumbprint

    async def _provision(self, thumbprint: str) -> None:
        """Bring authority, keys, list and time to the box.

        Raises `NoReply`, `UnknownReply`, `CommandFailed`, `ApiError`.
        """
        self._tell("Provisioning the box.")
        challenge, began = await self._hello(), time.monotonic()
        query = f"nonce={base64url(challenge.nonce)}&thumbprint={thumbprint}"
        answer = await self._client.get(f"{self._path}/provisioning?{query}")
        if time.monotonic() - began > NONCE_SECONDS:
            raise CommandFailed(f"The server took more than {NONCE_SECONDS} s. Run the command again.")
        messages = [octets(answer[name]) for name in ("provisioning", "keySet", "statusList")]
        roots = [octets(root) for root in answer["roots"]]
        try:
            claims = cose.read(messages[0], PROVISIONING).claims
            known = {claims["root"].kid, *(cose.read(root, ROOT).kid for root in roots)}
        except MessageRefused:
            raise CommandFailed("The server speaks another version of the protocol than this program.") from None
        if challenge.name and (challenge.name != claims["aud"] or challenge.root not in known):
            raise CommandFailed(f"The box obeys another authority: its root is none of this server's. {RESET}.")
        for said in (*phone.brought(challenge, claims["iss"], roots), Provision(*messages)):
            reply = await self._link.exchange(said, AcceptedMessage, Result)
            if not isinstance(reply, AcceptedMessage) or reply.refused:
                raise CommandFailed(REFUSED)


def _list(versions: Any) -> str:
    return ", ".join(map(str, versions))
