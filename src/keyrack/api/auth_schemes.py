"""Authentication and authorisation of an endpoint's caller, as one value per row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal

from keyrack.api.permissions import Free, Permission
from keyrack.api.principals import Scope


class AuthScheme:
    """The credentials of a request. Subclasses define them."""

    __slots__ = ()
    has_api_key: ClassVar[bool] = False
    has_token: ClassVar[bool] = False  # the access token of a manager or of a machine client
    has_customer: bool = False  # the header `Customer-ID`


@dataclass(frozen=True, slots=True)
class CustomerAuth(AuthScheme):
    """API key and access token. `Customer-ID` names the customer in which the caller needs the permission."""

    has_api_key: ClassVar[bool] = True
    has_token: ClassVar[bool] = True

    permission: Permission
    _: KW_ONLY
    has_customer: bool = field(default=True, init=False)
    # A group-limited manager may call it: the handler, or the body's `scoped_members`, enforce the groups
    is_group_scoped: bool = False
    is_for_people: bool = False  # machine clients get 403, whatever their permissions
    # Part of the request or of the response -> the permission that it needs, which the handler checks
    conditional: Mapping[str, Permission] = field(default_factory=dict[str, Permission])


@dataclass(frozen=True, slots=True)
class AccountAuth(AuthScheme):
    """API key and access token, without a customer.

    The endpoint is about the caller, or the same for all customers.
    """

    has_api_key: ClassVar[bool] = True
    has_token: ClassVar[bool] = True

    # A permission that the caller needs in any customer; else every caller, or every manager
    permission: Permission | Literal[Free.CALLER, Free.PERSON] = Free.CALLER


@dataclass(frozen=True, slots=True)
class DeviceAuth(AuthScheme):
    """A device key with this scope, which identifies the caller and the customer."""

    permission: ClassVar[Free] = Free.DEVICE

    scope: Scope


@dataclass(frozen=True, slots=True)
class AppAuth(AuthScheme):
    """The id token of an app, which identifies the user and the customer."""

    permission: ClassVar[Free] = Free.USER

    has_own_user_check: bool = False  # the handler's own statement checks whether the user still exists


@dataclass(frozen=True, slots=True)
class DriverAuth(AuthScheme):
    """The session of a driver in the app at `/drive`. A write must come from a page of the app."""

    permission: ClassVar[Free] = Free.DRIVER

    has_customer: bool = False  # the header `Customer-ID` names one of the driver's customers


@dataclass(frozen=True, slots=True)
class DrivePageAuth(AuthScheme):
    """No credentials. A write must come from a page of the app.

    `request.driver` is the driver of the browser's session, or None.
    """

    permission: ClassVar[Free] = Free.PUBLIC


@dataclass(frozen=True, slots=True)
class ClientSecretAuth(AuthScheme):
    """The secret of a machine client, or an API key.

    If clients may call without a key, the handler checks who needs one.
    """

    has_api_key: ClassVar[bool] = True
    permission: ClassVar[Free] = Free.PUBLIC


@dataclass(frozen=True, slots=True)
class PublicAuth(AuthScheme):
    """No credentials: public."""

    permission: ClassVar[Free] = Free.PUBLIC


Auth = CustomerAuth | AccountAuth | DeviceAuth | AppAuth | DriverAuth | DrivePageAuth | ClientSecretAuth | PublicAuth
