"""The virtual phone: what it keeps of the server's response."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from keyrack.core.api_client.session import Client
from keyrack.simulator.offline.phone import VirtualPhone
from keyrack.simulator.offline.provisioning_tool import text

DAY_KEYS = {20_833: bytes(16), 20_834: bytes(range(16))}


class Server:
    """A server with one response to all requests. It is its own client, and its own response."""

    status = 200

    def __init__(self, *boxes: dict[str, Any]) -> None:
        self.response = {"keySet": "", "roots": [], "keys": [], "boxes": boxes}

    async def call(self, *_: Any, **__: Any) -> Server:
        return self

    def checked(self) -> dict[str, Any]:
        return self.response


def box(name: str, **members: Any) -> dict[str, Any]:
    return {"box": name, "statusLists": [], "receipt": None, **members}


def test_a_phone_keeps_the_day_keys_of_the_last_response() -> None:
    names = [{"day": day, "key": text(key)} for day, key in DAY_KEYS.items()]
    server = Server(box("box:3:1", names=names), box("box:4:1", names=[]))
    phone = VirtualPhone(cast(Client, server), 1, 2)
    asyncio.run(phone.fetch())
    assert phone.names == {"box:3:1": DAY_KEYS, "box:4:1": {}}
    server.response["boxes"] = (box("box:4:1", names=names[1:]),)
    asyncio.run(phone.fetch())
    assert phone.names == {"box:4:1": {20_834: DAY_KEYS[20_834]}}


def test_an_older_server_sends_no_day_keys() -> None:
    phone = VirtualPhone(cast(Client, Server(box("box:3:1"))), 1, 2)
    asyncio.run(phone.fetch())
    assert phone.names == {"box:3:1": {}}
