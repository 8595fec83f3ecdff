"""The app access of users, for managers. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.rate_limits import HOUR, RateLimit
from keyrack.api.schema.request_body import Int32, Moment, StrictBody, format_timestamp
from keyrack.auth.endpoints.managers import LANGUAGE
from keyrack.core.base64url import Octets
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode
from keyrack.core.errors import Conflict
from keyrack.db.connection import Connection
from keyrack.drivers import app_access, links, lost_phones, mails
from keyrack.drivers.app_access import NOT_NORMAL
from keyrack.drivers.endpoints.phones import MAX_PHONES
from keyrack.drivers.links import LinkKind
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE
from keyrack.fleet.endpoints.users import NO_USER, TAG
from keyrack.offline_keys.endpoints.user_devices import NO_DEVICE

endpoints = Endpoints[DriverServices](
    TAG, CustomerAuth(Permission.USERS_WRITE, is_group_scoped=True), is_extension=True, is_preview=True
)

NO_MAIL = ErrorCode(
    "mail-not-configured",
    "The server sends no mail, so it cannot mail an invitation.",
    "Invite without `mail`, and pass the link on. Or configure a mail server: `KEYRACK_MAIL_HOST`.",
)
REPORT = "report lost phones"


class AppInvitationRequest(StrictBody):
    """`mail` sends the link to the user's address. Otherwise, the response has it."""

    mail: bool = False


class AppInvitation(StrictBody):
    """The link, and when it expires. Both are null if the link is mailed."""

    link: str | None
    expires: Moment | None


class AppAccessState(StrictBody):
    """A user's access to the app for this customer."""

    can_be_invited: bool
    has_access: bool
    is_invited: bool
    invitation_expires: Moment | None
    last_seen: Moment | None
    is_withdrawn: bool


class UserLossReport(StrictBody):
    """The lost phones; null for all phones of the user."""

    phones: Annotated[list[Octets], Field(max_length=MAX_PHONES)] | None = None
    end_sessions: bool = True


class OpenableCarOfUser(StrictBody):
    """A car that the lost phones may still open."""

    car_id: Int32
    name: str
    opens_until: Moment
    can_power_loss_extend: bool


class UserLossOutcome(StrictBody):
    cars: list[OpenableCarOfUser] | None


@endpoints.post(
    "/users/{userId}/app-invitation",
    Doc(
        "inviteUserToApp",
        "Invite a user to the app",
        "Creates a link with which a `Normal` user gets access to the app at `/drive`. The link works once, for 72"
        " hours, and replaces an earlier one of the same kind. With `mail`, only the user's mailbox gets the link. A"
        " user with a withdrawn access gets it back by an invitation.",
    ),
    body=JsonBody(TypeAdapter(AppInvitationRequest), "invite to the app"),
    responses=Responses(
        201,
        AppInvitation,
        errors={404: (NO_USER,), 409: (NOT_NORMAL, NO_MAIL), 429: (RATE_LIMITED,)},
        has_secret=True,
    ),
)
async def invite(request: Request, body: AppInvitationRequest, services: DriverServices) -> Response:
    (user,) = request.ids
    async with request.db.transaction() as connection:
        await app_access.allow_invitation(connection, request.customer, user)
        if body.mail:
            await _mail(request, connection, services)
            return answer({"link": None, "expires": None}, 201, NO_STORE)
        created = await links.create(connection, user, request.customer, LinkKind.INVITATION)
    shown = {"link": links.address(services.settings, created.secret), "expires": format_timestamp(created.expires)}
    return answer(shown, 201, NO_STORE)


async def _mail(request: Request, connection: Connection, services: DriverServices) -> None:
    """Queue the mail of an invitation.

    It is in the driver's language, or else in the manager's. Raises `Conflict`, `TooManyRequests`.
    """
    settings, (user,) = services.settings, request.ids
    if not settings.sends_mail:
        raise Conflict(NO_MAIL)
    rate, burst = settings.password_mails_per_hour_per_address, settings.password_mail_burst_per_address
    await RateLimit("app-invitation-mails", rate, burst, HOUR).take(connection, f"{request.customer} {user}")
    language = await connection.fetchval(LANGUAGE, request.asker.caller)  # null for a machine client
    await mails.invite(connection, settings, request.customer, user, language)


@endpoints.get(
    "/users/{userId}/app-access",
    Doc(
        "getAppAccessOfUser",
        "Get the app access of a user",
        "Returns whether the user has access to the app for this customer, an open invitation, and the last use. Only"
        " `Normal` users can be invited (`canBeInvited`).",
    ),
    auth=CustomerAuth(Permission.USERS_READ, is_group_scoped=True),
    responses=Responses(200, AppAccessState, errors={404: (NO_USER,)}),
)
async def access(request: Request) -> Response:
    (user,) = request.ids
    state = await app_access.state(request.db, request.customer, user)
    expires, seen = state.invitation_expires, state.last_seen
    return answer(
        {
            "canBeInvited": state.can_be_invited,
            "hasAccess": state.has_access,
            "isInvited": expires is not None,
            "invitationExpires": expires and format_timestamp(expires),
            "lastSeen": seen and format_timestamp(seen),
            "isWithdrawn": state.is_withdrawn,
        }
    )


@endpoints.delete(
    "/users/{userId}/app-access",
    Doc(
        "withdrawAppAccessOfUser",
        "Withdraw the app access of a user",
        "The app shows nothing of this customer any more, and open invitations end. Keys that a phone has stay valid:"
        " `POST /users/{userId}/lost-phones` revokes them. An invitation gives the access back.",
    ),
    responses=Responses(errors={404: (NO_USER,)}),
)
async def withdraw(request: Request) -> Response:
    (user,) = request.ids
    async with request.db.transaction() as connection:
        await app_access.withdraw(connection, request.customer, user)
    return NO_CONTENT


@endpoints.post(
    "/users/{userId}/lost-phones",
    Doc(
        "reportLostPhonesOfUser",
        "Report lost phones of a user",
        "Removes the phones and revokes their keys, as the user does by `POST /drive/api/lost`. Without `phones`, these"
        " are all phones of the user. With `endSessions`, the user's sessions in the app end, and the user signs in"
        " again. Returns the cars that the phones may still open: a box accepts a revoked key until it has a newer"
        " status list. `cars` is null without `access:read`.",
    ),
    auth=CustomerAuth(
        Permission.USERS_WRITE, is_group_scoped=True, conditional={"`cars`": Permission.ACCESS_READ}
    ),
    body=JsonBody(TypeAdapter(UserLossReport), REPORT),
    responses=Responses(200, UserLossOutcome, errors={404: (NO_USER, NO_DEVICE)}),
)  # fmt: skip
async def lost(request: Request, body: UserLossReport) -> Response:
    (user,) = request.ids
    phones = None if body.phones is None else set(body.phones)
    async with request.db.transaction() as connection:
        await app_access.lock_user(connection, request.customer, user)
        openable = await lost_phones.report(connection, request.customer, user, phones, request.scope)
        if body.end_sessions:
            await app_access.end_sessions(connection, request.customer, user)
    may_see = Permission.ACCESS_READ in request.grant.permissions
    return answer({"cars": [lost_phones.shown(car) for car in openable] if may_see else None}, headers=NO_STORE)
