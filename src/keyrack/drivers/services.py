"""The parts of the process that the handlers of drivers need."""

from __future__ import annotations

from typing import Protocol

from keyrack.auth.services import AuthServices
from keyrack.auth.sso.login_flow import SignOn
from keyrack.db.change_notifier import Notify
from keyrack.db.connection import Database
from keyrack.drivers.cookies import DriverCookies


class DriverServices(AuthServices, Protocol):
    """Authentication, and the cookies of the app."""

    @property
    def driver_cookies(self) -> DriverCookies: ...
    @property
    def sign_on(self) -> SignOn: ...
    @property
    def system_db(self) -> Database: ...
    @property
    def notify(self) -> Notify: ...
