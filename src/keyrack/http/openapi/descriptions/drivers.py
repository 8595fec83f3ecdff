"""Descriptions of properties of the drivers' app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT

_SECRET = (
    "The secret of the link, which follows `#link=` in its address.",
    "Xk7dQ2l4bq0YpVwT3nA9rS6uE1zC8hJ5mG0fL2iB7oD",
)
_PASSWORD = ("The new password: 8 to 250 characters.", "correct horse battery staple")
_CREDENTIAL = (
    "The credential of the browser, as its `toJSON()` returns it.",
    {"id": "AQID", "type": "public-key"},
)
_NAME = ("The name of the passkey. Without it, the browser and the system are its name.", "My phone")
_OPTIONS = ("The options for the browser, as JSON.", {"challenge": "AQID"})

OF_DRIVERS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "AppSettings": {
        "sendsMail": ("Whether the server sends mail.", True),
        "hasPasskeys": ("Whether the address of the app has a host name, which passkeys need.", True),
        "pushKey": ("The public key of Web Push; null if the server sends no push messages.", None),
        "radio": ("`bluetooth`, or `simulated` in a demo.", "bluetooth"),
        "providers": ("The providers for single sign-on.", []),
        "serverTime": ("The time of the server.", "2026-05-01T08:15:00Z"),
    },
    "AppProvider": {
        "id": ("The id of the provider.", 1),
        "name": ("The display name of the provider.", "Example"),
    },
    "DriverCredentials": {
        "emailAddress": ("The e-mail address of the driver.", "driver@example.com"),
        "password": ("The password of the driver.", "correct horse battery staple"),
    },
    "SignedInDriver": {
        "user": ("The signed-in driver.", None),
        "link": ("Instead of `user`: the secret of a set-up link, after a start password.", None),
    },
    "DriverPerson": {
        "id": ("The id of the user.", 9),
        "firstName": ("The first name.", "Kim"),
        "lastName": ("The last name.", "Example"),
        "emailAddress": ("The e-mail address.", "driver@example.com"),
    },
    "PasskeySignIn": {"credential": _CREDENTIAL},
    "PasskeySignInOptions": {"publicKey": _OPTIONS},
    "DriverCustomer": {
        "id": ("The id of the customer.", 1),
        "name": ("The name of the customer.", "Example Fleet"),
        "phone": ("The phone number of the customer for help; null for none.", "+49 30 123456"),
    },
    "DriverSession": {
        "user": ("The driver.", None),
        "customers": ("The customers that the session sees.", None),
        "sessionId": ("The id of the session.", 7),
        "recentUntil": (
            "The time until which the sign-in permits a new passkey or a first password.",
            "2026-08-03T08:10:00Z",
        ),
        "isOfProvider": ("Whether a provider has signed the driver in, who then cannot change the account.", False),
        "hasPassword": ("Whether the account has a password.", True),
        "passkeys": ("The number of passkeys.", 1),
        "language": ("The language of the app and of mails; null for that of the browser.", "de"),
    },
    "DriverSessionRow": {
        "id": ("The id of the session.", 7),
        "device": ("The browser and the system.", "Chrome, Android"),
        "created": ("When the driver signed in.", "2026-05-01T07:30:00Z"),
        "seen": ("When the session was last used.", "2026-05-01T08:15:00Z"),
        "isCurrent": ("Whether it is the session of the request.", True),
    },
    "DriverToken": {"idToken": ("The id token, for the endpoints of the app SDK.", "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbg")},
    "DriverLinkBody": {"secret": _SECRET},
    "LinkCustomer": {
        "id": ("The id of the customer.", 1),
        "name": ("The name of the customer.", "Example Fleet"),
    },
    "DriverLinkPreview": {
        "kind": (
            "`invitation` of a manager, `mailed` to the address of the driver, or `setup` after a start password.",
            "invitation",
        ),
        "customer": ("The customer to which the link gives access; null for a link that the driver requested.", None),
        "emailAddress": ("The e-mail address of the driver, without most of its local part.", "d…@example.com"),
        "hasAccount": ("Whether the driver has an account.", False),
        "canReset": ("Whether the link may replace the credentials of an existing account.", True),
        "isSignedInAsThisUser": ("Whether the browser is signed in as this driver.", False),
        "resets": ("Whether accepting ends the credentials and sessions of an existing account.", False),
    },
    "DriverPasskeyOptions": {"publicKey": _OPTIONS},
    "LinkAcceptance": {
        "secret": _SECRET,
        "password": _PASSWORD,
        "credential": _CREDENTIAL,
        "name": _NAME,
        "reset": ("Whether an existing account may be reset.", False),
    },
    "ForgottenPassword": {"emailAddress": ("The e-mail address of the driver.", "driver@example.com")},
    "DriverPasswordChange": {
        "current": ("The current password; null if the account has none.", "correct horse battery staple"),
        "password": ("The new password: 8 to 250 characters.", "another horse battery staple"),
    },
    "NewDriverPasskey": {"credential": _CREDENTIAL, "name": _NAME},
    "DriverPasskeyCreated": {"id": ("The id of the passkey.", 3)},
    "DriverPasskey": {
        "id": ("The id of the passkey.", 3),
        "name": ("The name of the passkey.", "My phone"),
        "isBackedUp": ("Whether it is synced between devices.", False),
        "isRefused": (
            "Whether the passkey is rejected because its signature counter decreased, which indicates a copy.",
            False,
        ),
        "created": ("When the passkey was added.", "2026-05-01T07:30:00Z"),
        "lastUsed": ("When the passkey was last used to sign in; null for never.", None),
    },
    "ProviderSignIn": {"providerId": ("The id of the provider.", 1)},
    "ProviderSignInStart": {
        "address": (
            "The address of the provider, to which the page sends the browser.",
            "https://login.example.com/authorize?client_id=keyrack",
        )
    },
    "ProviderResponse": {
        "query": (
            "The query of `/drive/sso`, to which the provider has sent the browser, without the question mark.",
            "code=SplxlOBeZQQYbYS6WxSbIA&state=af0ifjsldkj",
        )
    },
    "PushSubscription": {
        "endpoint": (
            "The address of the browser at its push service: https, at a host of `KEYRACK_PUSH_SERVICES`.",
            "https://updates.push.services.mozilla.com/wpush/v2/gAAAAABn",
        ),
        "p256dh": (
            "The public key of the subscription.",
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        ),
        "auth": ("The secret of the subscription.", "BTBZMqHH6r4Tts7J_aSIgg"),
    },
    "DriverLanguage": {"language": ("The language of the app and of mails; null for that of the browser.", "de")},
}

_CREATED = ("When it was created.", "2026-05-01T08:00:00Z")
_REGISTERED = ("When the phone was registered.", "2026-05-01T08:00:00Z")
OF_EXPORTS: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "DriverExport": {
        "account": ("The account and the person.", None),
        "sessions": ("The sessions of the account.", None),
        "passkeys": ("The passkeys of the account.", None),
        "customers": ("The customers that the session sees, each with what it stores about the driver.", None),
    },
    "ExportedAccount": {
        "id": ("The id of the user.", 9),
        "emailAddress": ("The e-mail address.", "driver@example.com"),
        "firstName": ("The first name.", "Kim"),
        "lastName": ("The last name.", "Example"),
        "language": ("The language of the app; null for that of the browser.", "de"),
        "hasProvenMailbox": ("Whether a mailed link has proven the mailbox of the address.", True),
        "hasPassword": ("Whether the account has a password.", True),
        "created": _CREATED,
    },
    "ExportedSession": {
        "id": ("The id of the session.", 7),
        "device": ("The browser and the system.", "Chrome, Android"),
        "methods": ("The sign-in methods (RFC 8176).", ["pwd"]),
        "created": _CREATED,
        "seen": ("When it was last used, to the minute.", "2026-05-02T08:00:00Z"),
        "isCurrent": ("Whether it is the session of the request.", True),
    },
    "ExportedPasskey": {
        "id": ("The id of the passkey.", 3),
        "name": ("The name of the passkey.", "My phone"),
        "isBackedUp": ("Whether the passkey is synced between devices.", True),
        "isRefused": ("Whether the passkey is blocked, because its counter decreased.", False),
        "created": _CREATED,
        "lastUsed": ("When it was last used; null for never.", "2026-05-02T08:00:00Z"),
    },
    "ExportedCustomer": {
        "id": ("The id of the customer.", 1),
        "name": ("The name of the customer.", "Example Fleet"),
        "granted": (
            "When the customer gave access to the app; null if the proven mailbox gives it.",
            "2026-05-01T08:00:00Z",
        ),
        "phones": ("The driver's phones.", None),
        "assignments": ("The driver's assignments.", None),
        "requests": ("The driver's requests.", None),
        "events": ("The driver's openings and closings.", None),
    },
    "ExportedPhone": {
        "id": ("The thumbprint of the phone's key.", EXAMPLE_THUMBPRINT),
        "name": ("The name of the phone.", "Pixel 9"),
        "claimedProtection": ("The storage of the private key, as the phone claims it.", "Software"),
        "registered": _REGISTERED,
        "isApproved": ("Whether the phone gets keys.", True),
    },
    "ExportedAssignment": {
        "id": ("The id of the assignment.", 17),
        "start": ("When the assignment begins.", "2026-05-01T08:00:00Z"),
        "end": ("When the assignment ends; null for none.", "2026-05-01T18:00:00Z"),
    },
    "ExportedRequest": {
        "id": ("The id of the request.", 5),
        "kind": ("`extend` or `end`.", "extend"),
        "end": ("The requested end; null for an early end.", "2026-05-01T20:00:00Z"),
        "comment": ("The driver's comment.", "Train is late"),
        "state": ("`open`, `granted`, `rejected`, `withdrawn` or `expired`.", "granted"),
        "reason": ("The comment of the decision.", None),
        "created": _CREATED,
        "decided": ("When it was decided; null while it is open.", "2026-05-01T12:00:00Z"),
    },
    "ExportedEvent": {
        "id": ("The id of the event.", 21),
        "type": ("What happened.", "CarOpened"),
        "dateTime": ("The local time of the event.", "2026-05-01T10:00:00"),
        "utcDateTime": ("The time of the event.", "2026-05-01T08:00:00Z"),
        "userAgent": ("The program that reported the event.", "Keyrack key, box:3:1"),
    },
}
