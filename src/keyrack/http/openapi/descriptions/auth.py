"""Descriptions of properties of tokens, managers and machine clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.auth.declarations import CLIENTS

_SECRET = (
    "The secret of the client. No other response contains it.",
    "keyrack_client_Xk7dQ2l4bq0YpVwT3nA9rS6uE1zC8hJ5mG0fL2iB7oD",
)

OF_ACCESS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "AccessToken": {
        "access_token": ("The token for `Authorization: Bearer ...`.", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),
        "expires_in": ("The lifetime of the token in seconds: a string for a manager, a number for a client.", "3600"),
        "token_type": ("Always `Bearer`.", "Bearer"),
        "scope": (
            "The scopes of a client's token, separated by blanks. If a request omits it, the token gets all scopes of"
            " the client.",
            "cars:read assignments:write",
        ),
        "username": ("The manager's user name.", "manager@example.com"),
        "password": ("The manager's password.", "correct horse battery staple"),
        "grant_type": ("`password` for a manager, `client_credentials` for a client.", "password"),
        "client_id": CLIENTS.descriptions["clientId"],
        "client_secret": ("A secret of the client, unless the `Authorization` header contains it.", _SECRET[1]),
        "token": ("The access token to revoke.", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl"),
        "token_type_hint": ("Ignored, because there is only one type of token.", "access_token"),
    },
    "Manager": {
        "id": ("The id of the manager. In the response to an invitation, the id of the invitation.", 3),
        "username": (
            "The user name for signing in. It must be an e-mail address to receive mails.",
            "kim@example.com",
        ),
        "role": ("The role in this customer; null for no role and no permissions.", "Dispatcher"),
        "isLimited": ("Whether the role is limited to groups.", True),
        "groups": ("The groups that limit the role; null for the whole fleet.", [2]),
        "enabled": ("Whether the manager can sign in.", True),
        "acceptedProvider": (
            "The single sign-on provider whose account accepted the invitation, if the verified address of the"
            " account is not the invited one; null otherwise.",
            "corp",
        ),
        "acceptedAddress": (
            "The verified address of that account; null if there is none, or if it is the invited one.",
            "kim@elsewhere.example",
        ),
        "emailAddress": ("The address of the invited person, which becomes the user name.", "kim@example.com"),
        "link": (
            "The link to accept the invitation. It works once, and no other response contains it.",
            "https://keyrack.example.com/console/invitation#Xk7dQ2l4bq0YpVwT3nA9rS6uE1zC8hJ5mG0fL2iB7oD",
        ),
        "expires": ("When the invitation expires.", "2026-05-08T08:15:00Z"),
        "mailed": ("Whether a mail with a separate link was sent.", False),
        "path": ("The property to change.", "/role"),
        "value": ("The new value.", "Viewer"),
    },
    "Invitation": {
        "id": ("The id of the invitation.", 5),
        "emailAddress": ("The address of the invited person.", "kim@example.com"),
        "role": ("The role after acceptance.", "Dispatcher"),
        "groups": ("The groups that will limit the role; null for the whole fleet.", [2]),
        "invitedBy": ("The user name of the inviting manager, or the brand for the operator.", "owner@example.com"),
        "created": ("When the invitation was created.", "2026-05-01T08:15:00Z"),
        "expires": ("When the invitation expires.", "2026-05-08T08:15:00Z"),
    },
    "MachineClient": {
        **CLIENTS.descriptions,
        "clientSecret": _SECRET,
        "path": ("The property to change.", "/enabled"),
        "value": ("The new value. Required for `replace`, ignored for `remove`.", False),
    },
    "ClientSecret": {
        "id": ("The id of the secret.", 3),
        "created": ("When the secret was created.", "2026-04-30T12:00:00Z"),
        "lastUsed": ("When the secret was last used, to the minute; null for never.", "2026-05-01T08:15:00Z"),
        "clientSecret": _SECRET,
    },
}
