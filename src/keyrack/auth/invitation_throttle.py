"""Limits on invitations, as each mails an address that its inviter chooses.

They count per customer, per manager and per invited address. An invitation that replaces another one, or follows a
withdrawn one, counts like any other. The count of an address is the customer's own, so it reveals nothing of other
customers.
"""

from __future__ import annotations

from keyrack.api.rate_limits import DAY, HOUR, RateLimit, take_each
from keyrack.core.addresses import address_form
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Statements


async def take(statements: Statements, settings: Settings, customer: int, manager: int, address: str) -> None:
    """Take one invitation from each limit, or none. Raises `TooManyRequests`."""
    rate, burst = settings.invitations_per_hour_per_customer, settings.invitation_burst_per_customer
    of_customer = RateLimit("invitations", rate, burst, HOUR), f"customer {customer}"
    rate, burst = settings.invitations_per_hour_per_manager, settings.invitation_burst_per_manager
    of_manager = RateLimit("invitations", rate, burst, HOUR), f"manager {manager}"
    rate, burst = settings.invitations_per_day_per_address, settings.invitation_burst_per_address
    form = digest(address_form(address)).hex()
    of_address = RateLimit("invitations", rate, burst, DAY), f"customer {customer} address {form}"
    await take_each(statements, of_customer, of_manager, of_address)
