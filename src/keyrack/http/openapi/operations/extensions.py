"""In charge of the ids and descriptions of the operations that stand beside the spec."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.http.openapi.operations.offline_keys import OF_KEYS

LIMITED = " It is limited for each customer: beyond the limit the answer is 429 with `Retry-After`."

# Method and path -> the id, and what it does
OWN: Mapping[str, tuple[str, str]] = {
    "GET /.well-known/jwks.json": (
        "getJwks",
        "The keys by which access tokens and id tokens are verified, as a JSON Web Key Set (RFC 7517).",
    ),
    "GET /.well-known/openid-configuration": (
        "getOpenIdConfiguration",
        "The document of OpenID Connect Discovery 1.0, as far as it applies here.",
    ),
    "GET /retention": (
        "getRetention",
        "Each kind of data with the time for which it is kept, the setting that says so, and the oldest that there is.",
    ),
    "GET /users/{userId}/erasure": (
        "previewErasure",
        "Counts what `POST /users/{userId}/erase` would remove, end or make anonymous, and says what would stay, and"
        " why. Nothing is changed.",
    ),
    "POST /users/{userId}/erase": (
        "eraseUser",
        "The user leaves the customer at once; within minutes events and logs do not say any more who it was. It cannot"
        " be undone: look at `GET /users/{userId}/erasure` before.",
    ),
    "GET /assignments": (
        "listAssignments",
        "Those of all cars and users of the customer, by id unless `$orderby` says otherwise.",
    ),
    "GET /hidden-assignments": (
        "listHiddenAssignments",
        "For a group-limited caller: the times of assignments whose car is in the groups and whose user is not, and"
        " nothing else of them. The list has only the longest of those that begin at the same time. It is empty for"
        " every other caller.",
    ),
    "GET /groups/{groupId}": ("getGroup", "One group; `$expand` adds what is in it."),
    "GET /keys": ("listKeys", "The keys of every brand in one list; it is the same for all customers."),
    "GET /key-forms/{keyFormId}.svg": (
        "getKeyFormDrawing",
        "An SVG that a page can show: `keyForm.imageUrl` of a key leads to it.",
    ),
    "GET /events": (
        "listEvents",
        "Events are numbered for each customer, without gaps and in the order in which they were recorded, so"
        " `$filter=id gt N&$orderby=id` reads what is new and misses nothing. A list that is too long comes in pages.",
    ),
    "GET /changes": (
        "listChanges",
        "Changes are numbered for each customer, without gaps and in an order that respects every dependency, so"
        " `$filter=id gt N` reads what is new and misses nothing. A list that is too long comes in pages. A number that"
        " the log cannot be gone on from is 410, which tells what it has. What was erased is null. With `wait` an empty"
        " list waits for what comes; with `Accept: text/event-stream` changes are told as they come, each as an event"
        " `change`, and a stream that broke is resumed with `Last-Event-ID`.",
    ),
    "GET /cars/{carId}/access": (
        "getCarAccess",
        "Which assignments were in force then, as they were known then: also those that have been changed or deleted"
        " since. Without a time it is now; with `from` and `to` all that were in force between. `asOf` names the newest"
        " change that is in the answer; the changes around that time stand beside it, for a caller with `changes:read`."
        " A time before what is kept is 410 and never an empty list.",
    ),
    "GET /users/{userId}/access": (
        "getUserAccess",
        "Which cars the user could open then, as for a car.",
    ),
    "GET /changes/checkpoint": (
        "getCheckpoint",
        "What the log of changes was a moment ago, signed as a C2SP tlog-checkpoint: keep it where nobody who"
        " administers the server can change it. With `Accept: text/plain` the note alone. With `since` it is proven"
        " that the log begins with that of an older checkpoint.",
    ),
    "GET /changes/{changeId}/proof": (
        "getChangeProof",
        "The record of one change, and the hashes that lead from it to the root of the newest checkpoint: whoever has"
        " them needs to trust nobody. A change that is newer than the newest checkpoint has none yet.",
    ),
    "POST /ingest/events": (
        "deliverEvents",
        "Events of boxes and apps that were offline, one JSON object a line. `clientId` names each: one that comes"
        " again is counted as a duplicate, and gets the number that it had. Lines that are not valid are reported, and"
        " the others are recorded.",
    ),
    "POST /ingest/telemetry": (
        "deliverTelemetry",
        "What units have read, one JSON object a line. A line that tells nothing new is counted as a duplicate, so a"
        " delivery may be sent again. Lines that are not valid are reported, and the others are kept.",
    ),
    "GET /positions": (
        "listPositions",
        "Every car, whether it has a unit or not, with its newest position and whether somebody may use it now.",
    ),
    "GET /cars/{carId}/track": (
        "getCarTrack",
        "The places where the car was between `from` and `to`, in order. If there are more than `points`, they are"
        " thinned out evenly.",
    ),
    "GET /cars/{carId}/samples": (
        "getCarSamples",
        "Readings between `from` and `to`, in at most `points` buckets of equal length for each member of `fields`."
        " Buckets without a reading are left out.",
    ),
    "GET /operations": (
        "listOperations",
        "Creations, changes and ends of assignments that were asked for, with their state. Finished ones are kept for"
        " a time that `GET /retention` tells.",
    ),
    "GET /operations/{operationId}": (
        "getOperation",
        "`Pending` until it was applied, then `Succeeded`, or `Failed` with the reason in `errorCode` and"
        " `errorMessage`. A caller that has another permission in the customer needs none for the operations that it"
        " asked for.",
    ),
    "POST /batch": (
        "runBatch",
        "Items of one kind, each of which is what the single request would be, in their order. `atomic` does all or"
        " nothing, `dryRun` tells what would happen. Each item's result has the status that the single request would"
        " have had.",
    ),
    "GET /webhooks": ("listWebhooks", "The webhooks of the customer, with how many deliveries wait or were given up."),
    "GET /webhooks/kinds": (
        "listWebhookKinds",
        "What `kinds` of a webhook may hold: outcomes of assignments, what happens to each resource, and checkpoints. A"
        " wildcard takes all kinds of a resource, those of later releases too.",
    ),
    "GET /webhooks/{webhookId}": ("getWebhook", "One webhook. Its secrets are never shown again."),
    "GET /webhooks/{webhookId}/deliveries": (
        "listDeliveriesOfWebhook",
        "What was sent to it, with attempts, the start of the last answer, and when it is tried next.",
    ),
    "GET /deliveries": (
        "listDeliveries",
        "Those of all webhooks of the customer in one list: `$filter=state eq 'Dead'` finds those that were given up.",
    ),
    "PUT /webhooks": (
        "createWebhook",
        "Every outcome and change of the wanted kinds is sent to its address from now on, signed as Standard Webhooks"
        " says. Only addresses that the operator allows are dialled.",
    ),
    "PATCH /webhooks/{webhookId}": (
        "updateWebhook",
        "A JSON Patch (RFC 6902) of `remove` and `replace`. What is removed gets its default; the url cannot be"
        " removed. Enabling it sends what has waited.",
    ),
    "DELETE /webhooks/{webhookId}": ("deleteWebhook", "What waits for it is not sent any more."),
    "POST /webhooks/{webhookId}/rotate-secret": (
        "rotateWebhookSecret",
        "Until the old secret ends, every delivery is signed with both, so receivers can change over in their time.",
    ),
    "POST /webhooks/{webhookId}/test": (
        "testWebhook",
        "Sends a `webhook.test`, whatever kinds the webhook wants. How it went is told by"
        " `GET /webhooks/{webhookId}/deliveries`." + LIMITED,
    ),
    "POST /webhooks/{webhookId}/deliveries/{deliveryId}/replay": (
        "replayDelivery",
        "The same body and `webhook-id` as before, with a new timestamp and signature." + LIMITED,
    ),
    "POST /webhooks/{webhookId}/replay": (
        "replayDeliveries",
        "Everything of its kinds from `from` up to, and without, `to`, but for checkpoints. If there is more than one"
        " request takes, `next` is the `from` of the next one." + LIMITED,
    ),
    "POST /oauth2/revoke": (
        "revokeToken",
        "RFC 7009. A client revokes its own tokens, and shows itself as for getting one; a manager's token is revoked"
        " by whoever has it. It is refused everywhere within a second. What is no token, or is over, is answered 200.",
    ),
    "GET /.well-known/oauth-authorization-server": (
        "getAuthorizationServer",
        "The metadata of RFC 8414: where tokens are had and revoked, how clients show themselves, and all scopes.",
    ),
    "GET /managers": (
        "listManagers",
        "Those who act for the customer; `role` is null for one who has none, and so no right.",
    ),
    "GET /managers/{managerId}": ("getManager", "One manager, with the role in this customer."),
    "PUT /managers": (
        "inviteManager",
        "Makes a link that works once, and mails another one to the address where a mail server is set (`mailed`)."
        " Whoever opens it sets a password, or accepts with the account of that address. Who is invited again gets a"
        " new link; the old one is over.",
    ),
    "PATCH /managers/{managerId}": (
        "updateManager",
        "A JSON Patch (RFC 6902) that replaces `/role`. It holds everywhere within a second. The last owner stays one.",
    ),
    "DELETE /managers/{managerId}": (
        "removeManager",
        "The account stays, with what it may elsewhere. The last owner who may sign in is not removed.",
    ),
    "GET /invitations": ("listInvitations", "Those that nobody has accepted yet, and that are good still."),
    "DELETE /invitations/{invitationId}": ("withdrawInvitation", "Who opens the link is told that it is over."),
    "GET /clients": ("listClients", "Those that may act for the customer, whoever manages them."),
    "GET /clients/{clientId}": ("getClient", "One client, with what it may in the customer and when it was used last."),
    "GET /clients/{clientId}/secrets": (
        "listClientSecrets",
        "At most two. `lastUsed` says which one is not used any more; it is written down once a minute.",
    ),
    "PUT /clients": (
        "createClient",
        "`scopes` are permissions, each by its name: one that is misspelt, or that lets a program say who may, is"
        " refused. Who may write may read. With `expires` it ends by itself.",
    ),
    "PATCH /clients/{clientId}": (
        "updateClient",
        "A JSON Patch (RFC 6902) of `remove` and `replace`; `remove` is for `expires` alone. It holds everywhere within"
        " a second, for tokens that are out as well.",
    ),
    "DELETE /clients/{clientId}": ("deleteClient", "Its tokens are refused everywhere within a second."),
    "PUT /clients/{clientId}/secrets": (
        "createClientSecret",
        "So that a secret is changed without a pause: make another one, give it to the program, remove the old one.",
    ),
    "DELETE /clients/{clientId}/secrets/{secretId}": (
        "deleteClientSecret",
        "Tokens that were got by it are refused everywhere within a second; those of the other one stay good.",
    ),
    "GET /live": (
        "streamChanges",
        "Server-sent events (text/event-stream), each of which names what has changed, and not how: read it again then."
        " A stream that broke is resumed with `Last-Event-ID`.",
    ),
    "GET /me": ("getMe", "Who the access token is for, and how the manager likes the pages to be."),
    "GET /sessions": ("listSessions", "The sessions of the web console, with when each was last seen."),
    "PUT /me/preferences": ("setPreferences", "All three are needed; null leaves it to the browser."),
    "PUT /me/password": ("changePassword", "The current password is needed as well. Sign in again afterwards."),
    "DELETE /sessions": ("endSessions", "Every browser has to sign in again. Access tokens stay as they are."),
    "DELETE /sessions/{sessionId}": ("endSession", "That browser has to sign in again."),
    "GET /me/identities": ("listIdentities", "The manager's accounts at providers of single sign-on."),
    "DELETE /me/identities/{identityId}": (
        "disconnectIdentity",
        "Nobody signs in by that account any more. The last way to sign in stays.",
    ),
    "GET /me/factors": ("getFactors", "What there is beside the password, and whether a role needs one."),
    "GET /me/passkeys": ("listPasskeys", "With when each was last used. Their keys are never shown."),
    "POST /me/passkeys/options": (
        "beginPasskey",
        "For `navigator.credentials.create()`, as WebAuthn writes it in JSON. Good for five minutes, once.",
    ),
    "PUT /me/passkeys": (
        "addPasskey",
        "`credential` is what the browser has made, as its `toJSON()` writes it; the device has verified its user.",
    ),
    "DELETE /me/passkeys/{passkeyId}": ("removePasskey", "Nobody signs in with it any more."),
    "POST /me/totp": (
        "beginApp",
        "The secret, and the same for a QR code. It counts once it is confirmed.",
    ),
    "PUT /me/totp": ("confirmApp", "From then on a password is not enough to sign in."),
    "DELETE /me/totp": ("removeApp", "Its codes are over."),
    "POST /me/recovery-codes": ("renewRecoveryCodes", "Each works once in place of a code."),
    "GET /factor-rules": ("getFactorRules", "The roles whose permissions are for who has shown a second factor."),
    "PUT /factor-rules": (
        "setFactorRules",
        "All of them: a role that is left out needs none. It holds within a second, also for who is signed in.",
    ),
    "GET /": ("getAbout", "Name, version, and where the interface and its documents are."),
    "GET /openapi.json": ("getOpenApi", "The document that this is part of. Clients can be generated from it."),
    "GET /docs": ("getReference", "One page without scripts, made from the OpenAPI document."),
    "GET /docs/errors": ("getCodes", "Each code with its texts, where it comes from, and what to do about it."),
    "GET /health": ("getHealth", "For load balancers: 503 with one reason where it is not ready."),
    "GET /health/live": ("getLiveness", "For whoever restarts processes: it says nothing of the database."),
    "GET /health/ready": ("getReadiness", "For load balancers and people: all reasons, and warnings beside a 200."),
    **OF_KEYS,
}
