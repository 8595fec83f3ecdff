"""The services of a serving process: connections, caches and background tasks.

Handlers see only the part that a protocol of their package declares.
"""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.api.event_stream import EventHub
from keyrack.api.odata import Limits
from keyrack.api.principals import Caller, Driver
from keyrack.api.response_spool import Spool
from keyrack.assignments.customer_lock import CustomerTurns
from keyrack.assignments.outcome_waits import OutcomeWaits
from keyrack.auth.authenticator import Authenticator
from keyrack.auth.denial_log import DenialLog
from keyrack.auth.sso.login_flow import SignOn
from keyrack.changelog.feed_stream import FeedService
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import Notify
from keyrack.db.connection import Database
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.other_cells import OtherCells
from keyrack.db.replication.read_routing import ReadRouter
from keyrack.db.worker_wakeup import WakeupNotifier
from keyrack.drivers.cookies import DriverCookies
from keyrack.http.authentication import RequestAuthenticator
from keyrack.http.endpoints.documents import Documents
from keyrack.http.endpoints.health import Readiness
from keyrack.http.ingest_memory import IngestMemoryBudget
from keyrack.offline_keys.issuing_keys import IssuingKeySigners
from keyrack.telemetry.ingest import Telemetry
from keyrack.webhooks.event_deliveries import EventPublisher


@dataclass(frozen=True, slots=True)
class ServeServices:
    """The services that are open while the process serves."""

    settings: Settings
    db: Database
    system_db: Database  # own pool for access checks, sign-ins and health, whatever the load of `db`
    other_cells: OtherCells
    authenticator: Authenticator
    authentication: RequestAuthenticator
    driver_cookies: DriverCookies
    announce: WakeupNotifier
    notify: Notify
    replicas: ReadRouter | None
    batches: GroupCommitter
    refusals: DenialLog
    sign_on: SignOn
    turns: CustomerTurns
    outcome_waits: OutcomeWaits
    ingest_memory: IngestMemoryBudget
    encryption: Encryption
    issuing_keys: IssuingKeySigners
    query_limits: Limits
    spool: Spool
    telemetry: Telemetry
    event_publisher: EventPublisher
    event_hub: EventHub
    feed: FeedService
    documents: Documents
    readiness: Readiness

    def database(self, caller: Caller | None, customer: int, driver: Driver | None = None, *, reads: bool) -> Database:
        """The database on behalf of a caller or a driver.

        It is `system_db` if no principal and no customer is known.
        """
        if driver is not None:
            return self.db.of_driver(customer, driver.user, reads=reads)
        if caller is None and not customer:
            return self.system_db
        return self.db.of(customer, 0 if caller is None else caller.id, reads=reads)
