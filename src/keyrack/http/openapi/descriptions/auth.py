"""In charge of what the members mean that are about who may call: tokens and machine clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.auth.declarations import CLIENTS

_SECRET = ("The client's secret. It is shown only here.", "keyrack_client_Xk7dQ2l4bq0YpVwT3nA9rS6uE1zC8hJ5mG0fL2iB7oD")

OF_ACCESS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "AccessToken": {
        "access_token": ("What `Authorization: Bearer ...` carries.", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),
        "expires_in": ("Seconds for which it is good: as text for a manager, as a number for a client.", "3600"),
        "token_type": ("Always `Bearer`.", "Bearer"),
        "scope": (
            "Of a client: what the token is for, with blanks between. Left out of a request: all that the client has.",
            "cars:read assignments:write",
        ),
        "username": ("The manager's user name.", "manager@example.com"),
        "password": ("The manager's password.", "correct horse battery staple"),
        "grant_type": ("`password` for a manager, `client_credentials` for a client.", "password"),
        "client_id": CLIENTS.descriptions["clientId"],
        "client_secret": ("One of the client's secrets, where the header has it not.", _SECRET[1]),
        "token": ("The access token that is to be refused.", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),
        "token_type_hint": ("Not looked at: there is one kind of token.", "access_token"),
    },
    "Manager": {
        "id": ("The number of the manager; of an answer to an invitation, that of the invitation.", 3),
        "username": (
            "The name to sign in with: an e-mail address, where mails are to come.",
            "kim@example.com",
        ),
        "role": ("The role in this customer; null for none, and so no right.", "Dispatcher"),
        "isLimited": ("Whether the role is limited to groups.", True),
        "groups": ("The groups that the role is limited to; null for the whole fleet.", [2]),
        "enabled": ("Whether the account may sign in.", True),
        "acceptedProvider": (
            "The provider whose account accepted the invitation, if the account's verified address is not the invited"
            " one; else null.",
            "corp",
        ),
        "acceptedAddress": (
            "The verified address of that account; null for none, and if it is the invited one.",
            "kim@elsewhere.example",
        ),
        "emailAddress": ("Who is invited; it becomes the user name.", "kim@example.com"),
        "link": (
            "Where the invitation is accepted. It is shown only here, and works once.",
            "https://keyrack.example.com/console/invitation#Xk7dQ2l4bq0YpVwT3nA9rS6uE1zC8hJ5mG0fL2iB7oD",
        ),
        "expires": ("When the invitation is over.", "2026-05-08T08:15:00Z"),
        "mailed": ("Whether a mail with a link of its own was sent.", False),
        "path": ("The member that the step changes.", "/role"),
        "value": ("What the member gets.", "Viewer"),
    },
    "Invitation": {
        "id": ("The number of the invitation.", 5),
        "emailAddress": ("Who is invited.", "kim@example.com"),
        "role": ("The role that whoever accepts will have.", "Dispatcher"),
        "groups": ("The groups that it will be limited to; null for the whole fleet.", [2]),
        "invitedBy": ("Who has invited.", "owner@example.com"),
        "created": ("When that was.", "2026-05-01T08:15:00Z"),
        "expires": ("When it is over.", "2026-05-08T08:15:00Z"),
    },
    "MachineClient": {
        **CLIENTS.descriptions,
        "clientSecret": _SECRET,
        "path": ("The member that the step changes.", "/enabled"),
        "value": ("What the member gets; `replace` needs it, `remove` does not look at it.", False),
    },
    "ClientSecret": {
        "id": ("The number of the secret.", 3),
        "created": ("When it was made.", "2026-04-30T12:00:00Z"),
        "lastUsed": ("When it was used last, to a minute; null for never.", "2026-05-01T08:15:00Z"),
        "clientSecret": _SECRET,
    },
}
