"""Decisions about each column: export, erasure and change log.

Each column of the schema has three decisions with their reasons. Export, user export and change log read them, and
`tests/changelog/test_column_decisions.py` fails for a column without decisions. A decision is changed together with the
code that carries it out; the same test compares both. Declared columns have theirs by their declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString, NamedTuple

from keyrack.api.schema.declaration import ResourceTable
from keyrack.auth.declarations import CLIENTS
from keyrack.db.connection import Statements
from keyrack.fleet.declarations import (
    ASSIGNMENTS,
    CARS,
    CONTRACTS,
    CUSTOMERS,
    GROUPS,
    PEOPLE,
    PRODUCTS,
    SERVICES,
    USERS,
)
from keyrack.webhooks.declarations import WEBHOOKS


@dataclass(frozen=True, slots=True)
class ColumnDecision:
    """One decision and its reason.

    `is_included`: the column is in the export, in the user export or in the change log.
    """

    reason: str
    is_included: bool = False


class ColumnDecisions(NamedTuple):
    """The decisions about one column: `keyrack export`, person, change log."""

    export: ColumnDecision
    person: ColumnDecision  # `keyrack user export`, and the erasure of a person
    audit: ColumnDecision


# `keyrack export` and `keyrack import customer`
WRITTEN = ColumnDecision("a member of a record type", is_included=True)
IN_MANIFEST = ColumnDecision("a member of the manifest", is_included=True)
ROW_OF_CUSTOMER = ColumnDecision("the customer; it has another number after an import", is_included=True)
SECRET = ColumnDecision("a secret is never written")
MADE_AGAIN = ColumnDecision("the import makes it from other members")
SET_BY_IMPORT = ColumnDecision("the import disables each webhook, with its own reason")
OF_STAFF = ColumnDecision("managers, clients, their roles and sign-ins belong to the installation")
OF_SERVER = ColumnDecision("it belongs to the installation")
LOG_OF_SERVER = ColumnDecision("change log, access history and deliveries stay where their proofs and receivers are")
INVITED_ANEW = ColumnDecision("drivers are invited anew, because accounts and sign-ins belong to the installation")
ENROLLED_ANEW = ColumnDecision("boxes, phones, keys and units are enrolled anew, by another authority")
OF_IMPORT = ColumnDecision("where the rows came from; the export is a source itself")
IDS_OF_SOURCE = ColumnDecision("ids of the source's assignments, which mean nothing elsewhere")
OF_CELLS = ColumnDecision("the cells of this installation, which mean nothing elsewhere")
WORK = ColumnDecision("the schedule of a worker")
NO_MEMBER = ColumnDecision("since when a person is in no customer; the import makes a member")

# `keyrack user export`, and the erasure of a person
ROW_GOES = ColumnDecision("deleted with the person", is_included=True)
COPY_GOES = ColumnDecision("deleted with the person; another column has the same fact")
SECRET_GOES = ColumnDecision("deleted with the person; a secret, or a value for programs alone")
EMPTIED = ColumnDecision("emptied; the row stays", is_included=True)
COPY_EMPTIED = ColumnDecision("emptied; the person has no use of it, or another column has the same fact")
STAYS = ColumnDecision("stays; without the emptied columns it names nobody, or a bare number", is_included=True)
NUMBER = ColumnDecision("a bare number that says what is still to be erased")
PSEUDONYM = ColumnDecision("a pseudonym; its meaning goes with `person.seed` and `box_key.user_id`")
SOON = ColumnDecision("deleted after `KEYRACK_IDEMPOTENCY_HOURS`, and sealed until then")
UNTIL_SENT = ColumnDecision("a number or an address, deleted when the mail is sent or `KEYRACK_MAIL_HOURS` are over")
UNTIL_DELIVERED = ColumnDecision("a bare number, deleted when the other cell has got the change or the erasure")
UNTIL_TAKEN = ColumnDecision("a bare number, deleted when a worker takes it or after a day")
OF_MANAGER = ColumnDecision("of a manager, a client or an invited manager, who is no user")
NOBODY = ColumnDecision("says nothing about a user")

# Change log
RECORDED = ColumnDecision("a member of the changes of its resource", is_included=True)
ACTOR = ColumnDecision("the change names its actor")
ADVERTISED_NAMES = ColumnDecision("a secret that is made once for each enrolment, which is recorded")
BOX_ENTRY_HASH = ColumnDecision("the number names the entry")
BOX_LOG_POSITION = ColumnDecision("it advances with each delivery of the box's log")
CALLER_OF_CHANGE = ColumnDecision("it is the caller of a change that is recorded")
CELL_OF_PERSON = ColumnDecision("which cells have a copy of the person; its changes are recorded in each")
CELL_MOVE = ColumnDecision("the state of a move between cells, written by its command")
CELL = ColumnDecision("the settings of the operator name the cell, too")
CHANGE_LOG = ColumnDecision("the table is part of the change log")
CONFLICT = ColumnDecision("another row has the same address")
COPY_OF_ASSIGNMENT = ColumnDecision("it is made from exclusive assignments, which are recorded")
CREDENTIAL = ColumnDecision("a passkey's name by its device, and what the device does")
DATA_KEY = ColumnDecision("it changes no resource")
DISCARD = ColumnDecision("a discard is recorded as a deletion, and a return as a creation", is_included=True)
ENROLMENT = ColumnDecision("the enrolment is recorded")
GROUP_SCOPE = ColumnDecision("it is made from groups and roles, which are recorded")
IMPORT_PROGRESS = ColumnDecision("the rows of an import are recorded themselves")
KEY_OF_PUSH = ColumnDecision("the server makes it once, and it changes no resource")
KEY_TOKEN = ColumnDecision("the other columns of the key are recorded")
LINK_OF_MANAGER = ColumnDecision("the use of the link is recorded as a change of the manager")
LOG = ColumnDecision("the table is a log itself")
MAILED_LINK = ColumnDecision("each mail has a link of its own")
NAME_OF_PHONE = ColumnDecision("its user chose it, and may be erased")
NORMAL_FORM = ColumnDecision("it is made from the address, which is recorded")
OF_DRIVER = ColumnDecision("a driver's own sign-in, which changes no resource of a customer")
OLD_SECRET = ColumnDecision("it was recorded when it was current")
ORDER = ColumnDecision("the order of rows")
PREFERENCE = ColumnDecision("a preference for the console")
PROCESS = ColumnDecision("state of processes")
QUEUE = ColumnDecision("work in a queue; its outcome is recorded")
RATE = ColumnDecision("the use of a rate limit")
READING = ColumnDecision("the table is a log of readings")
REGISTRATION = ColumnDecision("the registration is recorded")
REMOVAL_OF_PHONE = ColumnDecision("the removal of the phone is recorded")
SCHEMA = ColumnDecision("the schema, not its rows")
SEARCH_TEXT = ColumnDecision("it is made from columns that are recorded")
SEED = ColumnDecision("pseudonyms are made from it")
SESSION = ColumnDecision("a session changes with each request")
SIGNED_KEYS = ColumnDecision("the keys are recorded themselves")
SIGN_IN = ColumnDecision("a sign-in in progress")
SIGN_OUT = ColumnDecision("the sign-out is recorded as a change of the manager")
STATUS_LIST = ColumnDecision("it is made from keys, which are recorded")
STATUS_LIST_SLOT = ColumnDecision("its position in a status list")
STORED_ANSWER = ColumnDecision("an answer that is stored for a retry")
TIME_OF_CHANGE = ColumnDecision("it is the time of a change that is recorded")
TOKEN_SUBJECT = ColumnDecision("how tokens name the account")
USE = ColumnDecision("a use is no change")

_of = ColumnDecisions


def _declared(
    table: ResourceTable, export: ColumnDecision = WRITTEN, person: ColumnDecision = NOBODY
) -> dict[str, ColumnDecisions]:
    """The decisions about members of a declaration.

    They are recorded. Secret ones are in no export, and personal ones are deleted with the person.
    """
    return {
        member.column: _of(
            SECRET if member.info.is_secret else export, ROW_GOES if member.info.is_personal else person, RECORDED
        )
        for member in table.members
    }


COLUMNS: Mapping[str, Mapping[str, ColumnDecisions]] = {
    "access_change": {
        "access_change_id": _of(OF_SERVER, NOBODY, PROCESS),
        "at": _of(OF_SERVER, NOBODY, PROCESS),
    },
    "alembic_version": {
        "version_num": _of(OF_SERVER, NOBODY, SCHEMA),
    },
    "api_key": {
        "api_key_id": _of(OF_STAFF, NOBODY, RECORDED),
        "name": _of(OF_STAFF, NOBODY, RECORDED),
        "hash": _of(OF_STAFF, NOBODY, RECORDED),
        "expires_at": _of(OF_STAFF, NOBODY, RECORDED),
        "revoked_at": _of(OF_STAFF, NOBODY, RECORDED),
        "created_at": _of(OF_STAFF, NOBODY, TIME_OF_CHANGE),
    },
    "app_device": {
        "customer_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "device_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "user_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "public_key": _of(ENROLLED_ANEW, COPY_GOES, RECORDED),
        "name": _of(ENROLLED_ANEW, ROW_GOES, NAME_OF_PHONE),
        "protection": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "registered_at": _of(ENROLLED_ANEW, ROW_GOES, TIME_OF_CHANGE),
        "is_approved": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "is_lost": _of(ENROLLED_ANEW, COPY_GOES, RECORDED),
    },
    "assignment_request": {
        "customer_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "request_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "user_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "assignment_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "car_id": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "kind": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "end_before": _of(ENROLLED_ANEW, COPY_GOES, TIME_OF_CHANGE),
        "wanted_end": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "comment": _of(ENROLLED_ANEW, ROW_GOES, NAME_OF_PHONE),
        "state": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "operation_id": _of(ENROLLED_ANEW, COPY_GOES, TIME_OF_CHANGE),
        "decided_by": _of(ENROLLED_ANEW, ROW_GOES, RECORDED),
        "error_code": _of(ENROLLED_ANEW, COPY_GOES, TIME_OF_CHANGE),
        "decision_comment": _of(ENROLLED_ANEW, ROW_GOES, NAME_OF_PHONE),
        "created_at": _of(ENROLLED_ANEW, ROW_GOES, TIME_OF_CHANGE),
        "decided_at": _of(ENROLLED_ANEW, ROW_GOES, TIME_OF_CHANGE),
    },
    "app_subject": {
        "customer_id": _of(ENROLLED_ANEW, COPY_GOES, TOKEN_SUBJECT),
        "subject": _of(ENROLLED_ANEW, COPY_GOES, TOKEN_SUBJECT),
        "user_id": _of(ENROLLED_ANEW, COPY_GOES, TOKEN_SUBJECT),
    },
    "assignment": {
        **_declared(ASSIGNMENTS, person=ROW_GOES),
        "customer_id": _of(ROW_OF_CUSTOMER, ROW_GOES, RECORDED),
        "assignment_id": _of(WRITTEN, ROW_GOES, RECORDED),
        "car_id": _of(WRITTEN, ROW_GOES, RECORDED),
        "user_id": _of(WRITTEN, ROW_GOES, RECORDED),
        "starts_at": _of(WRITTEN, ROW_GOES, RECORDED),
        "ends_at": _of(WRITTEN, ROW_GOES, RECORDED),
        "lifetime": _of(WRITTEN, ROW_GOES, RECORDED),
        "renewable_after": _of(WRITTEN, ROW_GOES, RECORDED),
        "is_exclusive": _of(WRITTEN, ROW_GOES, RECORDED),
        "booking_gap": _of(WRITTEN, ROW_GOES, RECORDED),
    },
    "booking": {
        "customer_id": _of(MADE_AGAIN, COPY_GOES, COPY_OF_ASSIGNMENT),
        "assignment_id": _of(MADE_AGAIN, COPY_GOES, COPY_OF_ASSIGNMENT),
        "car_id": _of(MADE_AGAIN, COPY_GOES, COPY_OF_ASSIGNMENT),
        "starts_at": _of(MADE_AGAIN, COPY_GOES, COPY_OF_ASSIGNMENT),
        "blocked_until": _of(MADE_AGAIN, COPY_GOES, COPY_OF_ASSIGNMENT),
    },
    "box_entry": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, LOG),
        "product_id": _of(ENROLLED_ANEW, NOBODY, LOG),
        "epoch": _of(ENROLLED_ANEW, NOBODY, LOG),
        "number": _of(ENROLLED_ANEW, NOBODY, LOG),
        "first": _of(ENROLLED_ANEW, NOBODY, LOG),
        "hash": _of(ENROLLED_ANEW, NOBODY, LOG),
        "entry": _of(ENROLLED_ANEW, PSEUDONYM, LOG),
        "arrived_at": _of(ENROLLED_ANEW, NOBODY, LOG),
    },
    "box_epoch": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "product_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "epoch": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "public_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "enrolled_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
        "up_to": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "newest": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "given_up": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "held_generation": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "held_at": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "held_sequence": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "gaps": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "receipt": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "is_pending": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "enrolled_by": _of(ENROLLED_ANEW, OF_MANAGER, CALLER_OF_CHANGE),
        "proven_at": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
        "approved_at": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "approved_by": _of(ENROLLED_ANEW, OF_MANAGER, CALLER_OF_CHANGE),
        "advertising": _of(ENROLLED_ANEW, NOBODY, ADVERTISED_NAMES),
        "discarded_at": _of(ENROLLED_ANEW, NOBODY, DISCARD),
        "returned_at": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "heard_at": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
    },
    "box_key": {
        "customer_id": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "key_id": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "number": _of(ENROLLED_ANEW, NOBODY, ORDER),
        "product_id": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "epoch": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "generation": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST_SLOT),
        "place": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST_SLOT),
        "is_placed": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST_SLOT),
        "is_counted": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "assignment_id": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "car_id": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "user_id": _of(ENROLLED_ANEW, EMPTIED, RECORDED),
        "device_id": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "issuing_key_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "rights": _of(ENROLLED_ANEW, NOBODY, KEY_TOKEN),
        "freshness": _of(ENROLLED_ANEW, NOBODY, KEY_TOKEN),
        "lifetime": _of(ENROLLED_ANEW, NOBODY, KEY_TOKEN),
        "issued_at": _of(ENROLLED_ANEW, STAYS, TIME_OF_CHANGE),
        "begins_at": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "expires_at": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "revoked_at": _of(ENROLLED_ANEW, STAYS, RECORDED),
        "shown_at": _of(ENROLLED_ANEW, NOBODY, USE),
        "token": _of(ENROLLED_ANEW, COPY_EMPTIED, KEY_TOKEN),
    },
    "box_report": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "report_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "product_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "epoch": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "kind": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "number": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "hash": _of(ENROLLED_ANEW, NOBODY, BOX_ENTRY_HASH),
        "reported_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
        "fault": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "user_id": _of(ENROLLED_ANEW, EMPTIED, ACTOR),
        "times": _of(ENROLLED_ANEW, NOBODY, BOX_LOG_POSITION),
    },
    "brand_key": {
        "brand_key_id": _of(OF_SERVER, NOBODY, RECORDED),
        "brand": _of(OF_SERVER, NOBODY, RECORDED),
        "box_name": _of(OF_SERVER, NOBODY, RECORDED),
        "box_sap_number": _of(OF_SERVER, NOBODY, RECORDED),
        "key_form_id": _of(OF_SERVER, NOBODY, RECORDED),
    },
    "car": {
        **_declared(CARS),
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "car_id": _of(WRITTEN, NOBODY, RECORDED),
        "bookings": _of(WRITTEN, NOBODY, RECORDED),
        "booking_gap": _of(WRITTEN, NOBODY, RECORDED),
        "search_text": _of(MADE_AGAIN, NOBODY, SEARCH_TEXT),
        "sort_key": _of(MADE_AGAIN, NOBODY, SEARCH_TEXT),
    },
    "car_state": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, READING),
        "car_id": _of(WRITTEN, NOBODY, READING),
        "position_at": _of(WRITTEN, NOBODY, READING),
        "latitude": _of(WRITTEN, NOBODY, READING),
        "longitude": _of(WRITTEN, NOBODY, READING),
        "odometer_at": _of(WRITTEN, NOBODY, READING),
        "odometer": _of(WRITTEN, NOBODY, READING),
        "read_at": _of(WRITTEN, NOBODY, READING),
        "telemetry": _of(WRITTEN, NOBODY, READING),
        "told": _of(WRITTEN, NOBODY, READING),
        "product_id": _of(WRITTEN, NOBODY, READING),
        "position_since": _of(WRITTEN, NOBODY, READING),
        "position_times": _of(WRITTEN, NOBODY, READING),
        "odometer_since": _of(WRITTEN, NOBODY, READING),
        "odometer_times": _of(WRITTEN, NOBODY, READING),
        "read_quarter": _of(MADE_AGAIN, NOBODY, READING),
    },
    "cell": {
        "cell_id": _of(OF_SERVER, NOBODY, CELL),
        "number": _of(OF_SERVER, NOBODY, CELL),
        "name": _of(OF_SERVER, NOBODY, CELL),
    },
    "cell_move": {
        "move_id": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "moved_customer": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "role": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "other_cell": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "state": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "started_at": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "held_at": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "switched_at": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "ended_at": _of(OF_SERVER, NOBODY, CELL_MOVE),
    },
    "cell_move_changed_row": {
        "move_id": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "table_name": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "key": _of(OF_SERVER, NOBODY, CELL_MOVE),
    },
    "cell_move_kept_row": {
        "move_id": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "table_name": _of(OF_SERVER, NOBODY, CELL_MOVE),
        "content": _of(OF_SERVER, NOBODY, CELL_MOVE),
    },
    "change": {
        "class": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "customer_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "change_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "recorded_at": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "at": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "kind": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "resource": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "resource_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "who": _of(LOG_OF_SERVER, PSEUDONYM, CHANGE_LOG),
        "groups": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "before": _of(LOG_OF_SERVER, EMPTIED, CHANGE_LOG),
        "after": _of(LOG_OF_SERVER, EMPTIED, CHANGE_LOG),
        "person": _of(LOG_OF_SERVER, EMPTIED, CHANGE_LOG),
        "who_salt": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "content_salt": _of(LOG_OF_SERVER, COPY_EMPTIED, CHANGE_LOG),
        "person_salt": _of(LOG_OF_SERVER, COPY_EMPTIED, CHANGE_LOG),
        "record": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "group_sets": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_checkpoint": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "epoch": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "size": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "root": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "at": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "note": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "is_published": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "is_of_day": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_edge": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "behind": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "hash": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "tree": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_epoch": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "epoch": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "first_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "last_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "hash": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "tree": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "ended_at": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_inbox": {
        "seq": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "customer_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "at": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "kind": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "resource": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "resource_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "who": _of(LOG_OF_SERVER, PSEUDONYM, CHANGE_LOG),
        "groups": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "before": _of(LOG_OF_SERVER, EMPTIED, CHANGE_LOG),
        "after": _of(LOG_OF_SERVER, EMPTIED, CHANGE_LOG),
        "group_sets": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_log": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "epoch": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "class": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "last_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "last_recorded_at": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "oldest_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "hash": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "tree": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "first_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "erased_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_server": {
        "only_row": _of(OF_SERVER, NOBODY, PROCESS),
        "system": _of(OF_SERVER, NOBODY, PROCESS),
        "timeline": _of(OF_SERVER, NOBODY, PROCESS),
        "is_synchronous": _of(OF_SERVER, NOBODY, PROCESS),
    },
    "change_tile": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "epoch": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "level": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "place": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "hashes": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "change_tree": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "epoch": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "size": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "edge": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "signed": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "recorded_at": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "refused": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "refused_at": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "client": {
        **_declared(CLIENTS, OF_STAFF, OF_MANAGER),
        "client_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "subject": _of(OF_STAFF, OF_MANAGER, TOKEN_SUBJECT),
        "managed_by": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
    },
    "client_customer": {
        "customer_id": _of(OF_STAFF, NOBODY, RECORDED),
        "client_id": _of(OF_STAFF, NOBODY, RECORDED),
        "scopes": _of(OF_STAFF, NOBODY, RECORDED),
    },
    "client_secret": {
        "client_secret_id": _of(OF_STAFF, NOBODY, RECORDED),
        "client_id": _of(OF_STAFF, NOBODY, RECORDED),
        "managed_by": _of(OF_STAFF, NOBODY, RECORDED),
        "hash": _of(OF_STAFF, NOBODY, RECORDED),
        "created_at": _of(OF_STAFF, NOBODY, TIME_OF_CHANGE),
        "used_at": _of(OF_STAFF, NOBODY, USE),
    },
    "compatibility": {
        "only_row": _of(OF_SERVER, NOBODY, SCHEMA),
        "oldest_revision": _of(OF_SERVER, NOBODY, SCHEMA),
    },
    "contract": {
        **_declared(CONTRACTS),
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "service_id": _of(WRITTEN, NOBODY, RECORDED),
    },
    "custody": {
        "customer_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "stretch_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "assignment_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "car_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "user_id": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "since": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "until": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "known_from": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "known_until": _of(LOG_OF_SERVER, STAYS, CHANGE_LOG),
        "began": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "ended": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "span": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "custody_log": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "since": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "customer": {
        **_declared(CUSTOMERS, IN_MANIFEST),
        "customer_id": _of(IN_MANIFEST, NOBODY, RECORDED),
        "created_at": _of(IN_MANIFEST, NOBODY, TIME_OF_CHANGE),
        "history_days": _of(IN_MANIFEST, NOBODY, RECORDED),
        "keeps_positions": _of(IN_MANIFEST, NOBODY, RECORDED),
        "changes_days": _of(IN_MANIFEST, NOBODY, RECORDED),
        "driver_phone": _of(IN_MANIFEST, NOBODY, RECORDED),
        "driver_shows_place": _of(IN_MANIFEST, NOBODY, RECORDED),
        "driver_extension_hours": _of(IN_MANIFEST, NOBODY, RECORDED),
        "bookings": _of(IN_MANIFEST, NOBODY, RECORDED),
        "bookings_enforced": _of(IN_MANIFEST, NOBODY, RECORDED),
        "booking_gap": _of(IN_MANIFEST, NOBODY, RECORDED),
    },
    "customer_hold": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, QUEUE),
        "applied": _of(IN_MANIFEST, NOBODY, QUEUE),
        "due_at": _of(WORK, NOBODY, QUEUE),
    },
    "customer_import": {
        "customer_id": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
        "source": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
        "began_at": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
        "ended_at": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
    },
    "customer_user": {
        **_declared(USERS),
        "customer_id": _of(ROW_OF_CUSTOMER, ROW_GOES, RECORDED),
        "user_id": _of(WRITTEN, ROW_GOES, RECORDED),
        "joined_at": _of(MADE_AGAIN, COPY_GOES, TIME_OF_CHANGE),
    },
    "data_key": {
        "number": _of(OF_SERVER, NOBODY, DATA_KEY),
        "master": _of(OF_SERVER, NOBODY, DATA_KEY),
        "wrapped": _of(OF_SERVER, NOBODY, DATA_KEY),
        "created_at": _of(OF_SERVER, NOBODY, DATA_KEY),
    },
    "delivery": {
        "customer_id": _of(LOG_OF_SERVER, STAYS, LOG),
        "webhook_id": _of(LOG_OF_SERVER, NOBODY, LOG),
        "delivery_id": _of(LOG_OF_SERVER, STAYS, LOG),
        "message_id": _of(LOG_OF_SERVER, NOBODY, LOG),
        "type": _of(LOG_OF_SERVER, STAYS, LOG),
        "lane": _of(LOG_OF_SERVER, NOBODY, LOG),
        "assignment_id": _of(LOG_OF_SERVER, NOBODY, LOG),
        "payload": _of(LOG_OF_SERVER, EMPTIED, LOG),
        "state": _of(LOG_OF_SERVER, NOBODY, LOG),
        "attempts": _of(LOG_OF_SERVER, NOBODY, LOG),
        "since": _of(LOG_OF_SERVER, NOBODY, LOG),
        "next_attempt_at": _of(LOG_OF_SERVER, NOBODY, LOG),
        "attempted_at": _of(LOG_OF_SERVER, NOBODY, LOG),
        "status": _of(LOG_OF_SERVER, NOBODY, LOG),
        "duration": _of(LOG_OF_SERVER, NOBODY, LOG),
        "answer": _of(LOG_OF_SERVER, COPY_EMPTIED, LOG),
        "error": _of(LOG_OF_SERVER, NOBODY, LOG),
        "created_at": _of(LOG_OF_SERVER, STAYS, LOG),
        "applied": _of(LOG_OF_SERVER, NOBODY, LOG),
        "traceparent": _of(LOG_OF_SERVER, NOBODY, LOG),
    },
    "delivery_lane": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "webhook_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "lane": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "due_at": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "lease": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "attempts": _of(LOG_OF_SERVER, NOBODY, QUEUE),
    },
    "device_key": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "device_key_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "name": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "hash": _of(SECRET, NOBODY, RECORDED),
        "revoked_at": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "created_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
        "product_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "is_gateway": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "scopes": _of(ENROLLED_ANEW, NOBODY, RECORDED),
    },
    "driver_access": {
        "customer_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "granted_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_account": {
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "handle": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "password_hash": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "is_proven": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "sign_outs": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "language": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "created_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_identity": {
        "provider_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "subject": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "created_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_link": {
        "link_id": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "hash": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "customer_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "kind": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "handle": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "challenge": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "created_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "expires_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_passkey": {
        "passkey_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "credential_id": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "public_key": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "sign_count": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "transports": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "aaguid": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "name": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "is_backed_up": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "is_refused": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "created_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "used_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_push": {
        "session_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "endpoint": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "p256dh": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "auth": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "changes": _of(INVITED_ANEW, SECRET_GOES, QUEUE),
        "attempts": _of(INVITED_ANEW, SECRET_GOES, QUEUE),
        "due_at": _of(INVITED_ANEW, SECRET_GOES, QUEUE),
        "sent_at": _of(INVITED_ANEW, SECRET_GOES, QUEUE),
        "created_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_push_change": {
        "push_change_id": _of(WORK, NOBODY, QUEUE),
        "customer_id": _of(WORK, NOBODY, QUEUE),
        "user_id": _of(WORK, UNTIL_TAKEN, QUEUE),
        "created_at": _of(WORK, NOBODY, QUEUE),
    },
    "driver_session": {
        "session_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "customer_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "provider_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "hash": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "sign_outs": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "device": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "amr": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "challenge": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "challenged_at": _of(INVITED_ANEW, SECRET_GOES, OF_DRIVER),
        "created_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "seen_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "driver_withdrawn": {
        "customer_id": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
        "user_id": _of(INVITED_ANEW, COPY_GOES, OF_DRIVER),
        "withdrawn_at": _of(INVITED_ANEW, ROW_GOES, OF_DRIVER),
    },
    "enrolment_nonce": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, ENROLMENT),
        "product_id": _of(ENROLLED_ANEW, NOBODY, ENROLMENT),
        "nonce": _of(ENROLLED_ANEW, NOBODY, ENROLMENT),
        "expires_at": _of(ENROLLED_ANEW, NOBODY, ENROLMENT),
    },
    "erasure": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, QUEUE),
        "user_id": _of(WRITTEN, NUMBER, QUEUE),
        "asked_at": _of(WRITTEN, NOBODY, QUEUE),
        "last_event": _of(WRITTEN, NOBODY, QUEUE),
        "looked_at": _of(WORK, NOBODY, QUEUE),
    },
    "event": {
        "customer_id": _of(ROW_OF_CUSTOMER, STAYS, LOG),
        "event_id": _of(WRITTEN, STAYS, LOG),
        "user_id": _of(WRITTEN, EMPTIED, LOG),
        "car_id": _of(WRITTEN, STAYS, LOG),
        "local_at": _of(WRITTEN, NOBODY, LOG),
        "utc_at": _of(WRITTEN, STAYS, LOG),
        "latitude": _of(WRITTEN, EMPTIED, LOG),
        "longitude": _of(WRITTEN, EMPTIED, LOG),
        "type": _of(WRITTEN, STAYS, LOG),
        "local_text": _of(WRITTEN, STAYS, LOG),
        "user_agent": _of(WRITTEN, EMPTIED, LOG),
        "client_id": _of(WRITTEN, COPY_EMPTIED, LOG),
        "recorded_at": _of(LOG_OF_SERVER, NOBODY, LOG),
        "assignment_id": _of(LOG_OF_SERVER, COPY_EMPTIED, LOG),
    },
    "event_counter": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, LOG),
        "last_id": _of(IN_MANIFEST, NOBODY, LOG),
    },
    "factor_rule": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "role": _of(WRITTEN, NOBODY, RECORDED),
    },
    "fitting": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "fitting_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "kind": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "part_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "place_id": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "known_from": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
        "known_until": _of(LOG_OF_SERVER, NOBODY, CHANGE_LOG),
    },
    "fleet_group": {
        **_declared(GROUPS),
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "group_id": _of(WRITTEN, NOBODY, RECORDED),
        "search_text": _of(MADE_AGAIN, NOBODY, SEARCH_TEXT),
        "sort_key": _of(MADE_AGAIN, NOBODY, SEARCH_TEXT),
    },
    "group_car": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "group_id": _of(WRITTEN, NOBODY, RECORDED),
        "car_id": _of(WRITTEN, NOBODY, RECORDED),
    },
    "group_product": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "group_id": _of(WRITTEN, NOBODY, RECORDED),
        "product_id": _of(WRITTEN, NOBODY, RECORDED),
    },
    "group_service": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "group_id": _of(WRITTEN, NOBODY, RECORDED),
        "service_id": _of(WRITTEN, NOBODY, RECORDED),
    },
    "group_user": {
        "customer_id": _of(ROW_OF_CUSTOMER, ROW_GOES, RECORDED),
        "group_id": _of(WRITTEN, ROW_GOES, RECORDED),
        "user_id": _of(WRITTEN, ROW_GOES, RECORDED),
    },
    "heartbeat": {
        "heartbeat_id": _of(OF_SERVER, NOBODY, PROCESS),
        "role": _of(OF_SERVER, NOBODY, PROCESS),
        "host": _of(OF_SERVER, NOBODY, PROCESS),
        "pid": _of(OF_SERVER, NOBODY, PROCESS),
        "version": _of(OF_SERVER, NOBODY, PROCESS),
        "started_at": _of(OF_SERVER, NOBODY, PROCESS),
        "beat_at": _of(OF_SERVER, NOBODY, PROCESS),
        "revision": _of(OF_SERVER, NOBODY, PROCESS),
    },
    "housekeeping": {
        "step": _of(OF_SERVER, NOBODY, PROCESS),
        "due_at": _of(OF_SERVER, NOBODY, PROCESS),
        "held_until": _of(OF_SERVER, NOBODY, PROCESS),
        "last_good": _of(OF_SERVER, NOBODY, PROCESS),
        "seconds": _of(OF_SERVER, NOBODY, PROCESS),
        "last_error": _of(OF_SERVER, NOBODY, PROCESS),
        "last_error_at": _of(OF_SERVER, NOBODY, PROCESS),
        "failures": _of(OF_SERVER, NOBODY, PROCESS),
    },
    "idempotency_key": {
        "customer_id": _of(OF_STAFF, NOBODY, STORED_ANSWER),
        "manager_id": _of(OF_STAFF, NOBODY, STORED_ANSWER),
        "key_hash": _of(OF_STAFF, NOBODY, STORED_ANSWER),
        "request_hash": _of(OF_STAFF, NOBODY, STORED_ANSWER),
        "answer": _of(OF_STAFF, SOON, STORED_ANSWER),
        "created_at": _of(OF_STAFF, NOBODY, STORED_ANSWER),
    },
    "imported_id": {
        "customer_id": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
        "kind": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
        "old_id": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
        "new_id": _of(OF_IMPORT, NOBODY, IMPORT_PROGRESS),
    },
    "invitation": {
        "customer_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "invitation_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "address": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "role": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "invited_by": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "hash": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "mailed_hash": _of(OF_STAFF, OF_MANAGER, MAILED_LINK),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
        "expires_at": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "groups": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "address_form": _of(OF_STAFF, OF_MANAGER, NORMAL_FORM),
        "mailed_to": _of(OF_STAFF, OF_MANAGER, MAILED_LINK),
    },
    "issuing_key": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "issuing_key_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "private_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "public_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "created_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
        "revoked_at": _of(ENROLLED_ANEW, NOBODY, RECORDED),
    },
    "key_authority": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "private_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "public_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "sequence": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "key_set": _of(ENROLLED_ANEW, NOBODY, SIGNED_KEYS),
        "freshness": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "opens_uncertain": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "needs_second_person": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "approves_phones": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "created_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
    },
    "key_set_request": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, SIGNED_KEYS),
        "request": _of(ENROLLED_ANEW, NOBODY, SIGNED_KEYS),
        "requested_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
    },
    "key_form": {
        "key_form_id": _of(OF_SERVER, NOBODY, RECORDED),
        "name": _of(OF_SERVER, NOBODY, RECORDED),
        "image_url": _of(OF_SERVER, NOBODY, RECORDED),
        "drawing": _of(OF_SERVER, NOBODY, RECORDED),
    },
    "login_state": {
        "state": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "provider_id": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "browser": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "manager_id": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "next": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "time_zone": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "invitation": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "created_at": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
    },
    "mail": {
        "mail_id": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "kind": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "address": _of(OF_STAFF, UNTIL_SENT, QUEUE),
        "invited_to": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "invitation": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "language": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "attempts": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "due_at": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "created_at": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "last_error": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "notice": _of(OF_STAFF, OF_MANAGER, QUEUE),
        "user_id": _of(WORK, UNTIL_SENT, QUEUE),
        "audience": _of(WORK, NOBODY, QUEUE),
    },
    "manager": {
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "username": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "password_hash": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "subject": _of(OF_STAFF, OF_MANAGER, TOKEN_SUBJECT),
        "is_disabled": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
        "sign_outs": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "language": _of(OF_STAFF, OF_MANAGER, PREFERENCE),
        "time_zone": _of(OF_STAFF, OF_MANAGER, PREFERENCE),
        "theme": _of(OF_STAFF, OF_MANAGER, PREFERENCE),
        "proven_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
        "proven_by": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "address_form": _of(OF_STAFF, OF_MANAGER, NORMAL_FORM),
        "has_address_conflict": _of(OF_STAFF, OF_MANAGER, CONFLICT),
    },
    "manager_customer": {
        "customer_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "accepted_provider": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "accepted_address": _of(OF_STAFF, OF_MANAGER, RECORDED),
    },
    "manager_identity": {
        "identity_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "provider_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "subject": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
        "address": _of(OF_STAFF, OF_MANAGER, RECORDED),
    },
    "manager_role": {
        "customer_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "role": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "is_limited": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "groups": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "scope_id": _of(OF_STAFF, OF_MANAGER, GROUP_SCOPE),
    },
    "new_root": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, SIGNED_KEYS),
        "sequence": _of(ENROLLED_ANEW, NOBODY, SIGNED_KEYS),
        "message": _of(ENROLLED_ANEW, NOBODY, SIGNED_KEYS),
        "created_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
    },
    "odometer": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, READING),
        "car_id": _of(WRITTEN, NOBODY, READING),
        "at": _of(WRITTEN, NOBODY, READING),
        "odometer": _of(WRITTEN, NOBODY, READING),
        "times": _of(WRITTEN, NOBODY, READING),
    },
    "operation": {
        "customer_id": _of(ROW_OF_CUSTOMER, STAYS, LOG),
        "operation_id": _of(WRITTEN, STAYS, LOG),
        "seq": _of(MADE_AGAIN, NOBODY, LOG),
        "kind": _of(WRITTEN, STAYS, LOG),
        "cause": _of(WRITTEN, NOBODY, LOG),
        "state": _of(WRITTEN, STAYS, LOG),
        "car_id": _of(WRITTEN, STAYS, LOG),
        "user_id": _of(WRITTEN, EMPTIED, LOG),
        "assignment_id": _of(WRITTEN, STAYS, LOG),
        "request": _of(WRITTEN, EMPTIED, LOG),
        "result": _of(WRITTEN, EMPTIED, LOG),
        "checksum": _of(WRITTEN, NOBODY, LOG),
        "error_message": _of(WRITTEN, NOBODY, LOG),
        "attempts": _of(WRITTEN, NOBODY, LOG),
        "requested_at": _of(WRITTEN, STAYS, LOG),
        "finished_at": _of(WRITTEN, STAYS, LOG),
        "applied": _of(WRITTEN, NOBODY, LOG),
        "asked_by": _of(OF_STAFF, NOBODY, LOG),
        "asked_from": _of(WRITTEN, NOBODY, LOG),
        "request_id": _of(WRITTEN, NOBODY, LOG),
        "traceparent": _of(WRITTEN, NOBODY, LOG),
        "is_limited": _of(WRITTEN, NOBODY, LOG),
        "error_code": _of(WRITTEN, STAYS, LOG),
        "conflicts": _of(IDS_OF_SOURCE, NOBODY, LOG),
        "batch_id": _of(WORK, NOBODY, LOG),
    },
    "passkey": {
        "passkey_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "credential_id": _of(OF_STAFF, OF_MANAGER, CREDENTIAL),
        "public_key": _of(OF_STAFF, OF_MANAGER, CREDENTIAL),
        "sign_count": _of(OF_STAFF, OF_MANAGER, USE),
        "transports": _of(OF_STAFF, OF_MANAGER, CREDENTIAL),
        "aaguid": _of(OF_STAFF, OF_MANAGER, CREDENTIAL),
        "name": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "is_backed_up": _of(OF_STAFF, OF_MANAGER, CREDENTIAL),
        "is_refused": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
        "used_at": _of(OF_STAFF, OF_MANAGER, USE),
    },
    "password_link": {
        "manager_id": _of(OF_STAFF, OF_MANAGER, LINK_OF_MANAGER),
        "hash": _of(OF_STAFF, OF_MANAGER, LINK_OF_MANAGER),
        "created_at": _of(OF_STAFF, OF_MANAGER, LINK_OF_MANAGER),
        "expires_at": _of(OF_STAFF, OF_MANAGER, LINK_OF_MANAGER),
        "mailed_hash": _of(OF_STAFF, OF_MANAGER, LINK_OF_MANAGER),
    },
    "person": {
        **_declared(PEOPLE),
        "user_id": _of(WRITTEN, ROW_GOES, RECORDED),
        "type": _of(WRITTEN, ROW_GOES, RECORDED),
        "password_hash": _of(SECRET, ROW_GOES, RECORDED),
        "password_customer": _of(SECRET, ROW_GOES, OF_DRIVER),
        "created_at": _of(WRITTEN, ROW_GOES, TIME_OF_CHANGE),
        "seed": _of(SECRET, ROW_GOES, SEED),
        "left_at": _of(NO_MEMBER, ROW_GOES, SEED),
        "address_form": _of(MADE_AGAIN, COPY_GOES, NORMAL_FORM),
        "has_address_conflict": _of(MADE_AGAIN, COPY_GOES, CONFLICT),
        "search_text": _of(MADE_AGAIN, COPY_GOES, SEARCH_TEXT),
        "sort_key": _of(MADE_AGAIN, COPY_GOES, SEARCH_TEXT),
        "version": _of(OF_CELLS, COPY_GOES, CELL_OF_PERSON),
    },
    "person_cell": {
        "user_id": _of(OF_CELLS, COPY_GOES, CELL_OF_PERSON),
        "cell": _of(OF_CELLS, COPY_GOES, CELL_OF_PERSON),
    },
    "person_change_outbox": {
        "user_id": _of(WORK, UNTIL_DELIVERED, QUEUE),
        "cell": _of(WORK, UNTIL_DELIVERED, QUEUE),
        "is_erasure": _of(WORK, NOBODY, QUEUE),
        "changes": _of(WORK, NOBODY, QUEUE),
        "created_at": _of(WORK, NOBODY, QUEUE),
        "due_at": _of(WORK, NOBODY, QUEUE),
        "attempts": _of(WORK, NOBODY, QUEUE),
        "last_error": _of(WORK, NOBODY, QUEUE),
    },
    "position": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, READING),
        "car_id": _of(WRITTEN, NOBODY, READING),
        "at": _of(WRITTEN, NOBODY, READING),
        "latitude": _of(WRITTEN, NOBODY, READING),
        "longitude": _of(WRITTEN, NOBODY, READING),
        "times": _of(WRITTEN, NOBODY, READING),
    },
    "product": {
        **_declared(PRODUCTS),
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "product_id": _of(WRITTEN, NOBODY, RECORDED),
        "kind": _of(WRITTEN, NOBODY, RECORDED),
        "car_id": _of(WRITTEN, NOBODY, RECORDED),
        "search_text": _of(MADE_AGAIN, NOBODY, SEARCH_TEXT),
        "sort_key": _of(MADE_AGAIN, NOBODY, SEARCH_TEXT),
    },
    "provider": {
        "provider_id": _of(OF_STAFF, NOBODY, RECORDED),
        "name": _of(OF_STAFF, NOBODY, RECORDED),
        "label": _of(OF_STAFF, NOBODY, RECORDED),
        "issuer": _of(OF_STAFF, NOBODY, RECORDED),
        "client_id": _of(OF_STAFF, NOBODY, RECORDED),
        "client_secret": _of(OF_STAFF, NOBODY, RECORDED),
        "algorithms": _of(OF_STAFF, NOBODY, RECORDED),
        "counts_mfa": _of(OF_STAFF, NOBODY, RECORDED),
        "driver_customer_id": _of(OF_STAFF, NOBODY, RECORDED),
        "created_at": _of(OF_STAFF, NOBODY, TIME_OF_CHANGE),
    },
    "provider_domain": {
        "domain": _of(OF_STAFF, NOBODY, RECORDED),
        "provider_id": _of(OF_STAFF, NOBODY, RECORDED),
    },
    "pulled_message": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "webhook_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "number": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "delivery_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
    },
    "push_key": {
        "push_key_id": _of(OF_SERVER, NOBODY, KEY_OF_PUSH),
        "public_key": _of(OF_SERVER, NOBODY, KEY_OF_PUSH),
        "private_key": _of(OF_SERVER, NOBODY, KEY_OF_PUSH),
        "created_at": _of(OF_SERVER, NOBODY, KEY_OF_PUSH),
    },
    "rate_limit": {
        "key": _of(OF_SERVER, NOBODY, RATE),
        "full_at": _of(OF_SERVER, NOBODY, RATE),
        "owed": _of(OF_SERVER, NOBODY, RATE),
    },
    "recovery": {
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "hashes": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
    },
    "registration_nonce": {
        "customer_id": _of(ENROLLED_ANEW, COPY_GOES, REGISTRATION),
        "user_id": _of(ENROLLED_ANEW, COPY_GOES, REGISTRATION),
        "nonce": _of(ENROLLED_ANEW, COPY_GOES, REGISTRATION),
        "expires_at": _of(ENROLLED_ANEW, COPY_GOES, REGISTRATION),
    },
    "removed_device": {
        "customer_id": _of(ENROLLED_ANEW, COPY_GOES, REMOVAL_OF_PHONE),
        "device_id": _of(ENROLLED_ANEW, COPY_GOES, REMOVAL_OF_PHONE),
        "user_id": _of(ENROLLED_ANEW, COPY_GOES, REMOVAL_OF_PHONE),
        "removed_at": _of(ENROLLED_ANEW, COPY_GOES, REMOVAL_OF_PHONE),
    },
    "removed_webhook": {
        "customer_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "webhook_id": _of(LOG_OF_SERVER, NOBODY, QUEUE),
        "removed_at": _of(LOG_OF_SERVER, NOBODY, QUEUE),
    },
    "revoked_token": {
        "jti": _of(OF_STAFF, NOBODY, SIGN_OUT),
        "expires_at": _of(OF_STAFF, NOBODY, SIGN_OUT),
    },
    "scope": {
        "customer_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "scope_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "groups": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
    },
    "scope_group": {
        "customer_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "scope_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "group_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
    },
    "scope_member": {
        "customer_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "scope_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "kind": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "member_id": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
        "groups": _of(OF_STAFF, NOBODY, GROUP_SCOPE),
    },
    "sdk_key": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "sdk_key_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "name": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "hash": _of(SECRET, NOBODY, RECORDED),
        "revoked_at": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "created_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
    },
    "service": {
        **_declared(SERVICES),
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "service_id": _of(WRITTEN, NOBODY, RECORDED),
        "product_id": _of(WRITTEN, NOBODY, RECORDED),
    },
    "service_key": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "service_key_id": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "private_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "public_key": _of(ENROLLED_ANEW, NOBODY, RECORDED),
        "created_at": _of(ENROLLED_ANEW, NOBODY, TIME_OF_CHANGE),
        "revoked_at": _of(ENROLLED_ANEW, NOBODY, RECORDED),
    },
    "session": {
        "session_id": _of(OF_STAFF, OF_MANAGER, SESSION),
        "manager_id": _of(OF_STAFF, OF_MANAGER, SESSION),
        "hash": _of(OF_STAFF, OF_MANAGER, SESSION),
        "sign_outs": _of(OF_STAFF, OF_MANAGER, SESSION),
        "address": _of(OF_STAFF, OF_MANAGER, SESSION),
        "agent": _of(OF_STAFF, OF_MANAGER, SESSION),
        "time_zone": _of(OF_STAFF, OF_MANAGER, SESSION),
        "created_at": _of(OF_STAFF, OF_MANAGER, SESSION),
        "seen_at": _of(OF_STAFF, OF_MANAGER, SESSION),
        "amr": _of(OF_STAFF, OF_MANAGER, SESSION),
        "provider_id": _of(OF_STAFF, OF_MANAGER, SESSION),
    },
    "sign_in_step": {
        "hash": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "kind": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "manager_id": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "sign_outs": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "time_zone": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "challenge": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "tries": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "created_at": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "provider_id": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
        "amr": _of(OF_STAFF, OF_MANAGER, SIGN_IN),
    },
    "signing_key": {
        "kid": _of(OF_STAFF, NOBODY, RECORDED),
        "private_key": _of(OF_STAFF, NOBODY, RECORDED),
        "created_at": _of(OF_STAFF, NOBODY, TIME_OF_CHANGE),
        "revoked_at": _of(OF_STAFF, NOBODY, RECORDED),
    },
    "status_generation": {
        "customer_id": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "product_id": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "epoch": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "generation": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "uri": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "is_outdated": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "listed_at": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
        "list": _of(ENROLLED_ANEW, NOBODY, STATUS_LIST),
    },
    "telemetry": {
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, READING),
        "car_id": _of(WRITTEN, NOBODY, READING),
        "at": _of(WRITTEN, NOBODY, READING),
        "read_at": _of(WRITTEN, NOBODY, READING),
        "readings": _of(WRITTEN, NOBODY, READING),
        "told": _of(WRITTEN, NOBODY, READING),
    },
    "totp": {
        "manager_id": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "secret": _of(OF_STAFF, OF_MANAGER, RECORDED),
        "last_step": _of(OF_STAFF, OF_MANAGER, USE),
        "created_at": _of(OF_STAFF, OF_MANAGER, TIME_OF_CHANGE),
        "confirmed_at": _of(OF_STAFF, OF_MANAGER, RECORDED),
    },
    "used_login_state": {
        "hash": _of(OF_STAFF, NOBODY, SIGN_IN),
        "expires_at": _of(OF_STAFF, NOBODY, SIGN_IN),
    },
    "webhook": {
        **_declared(WEBHOOKS),
        "customer_id": _of(ROW_OF_CUSTOMER, NOBODY, RECORDED),
        "webhook_id": _of(WRITTEN, NOBODY, RECORDED),
        "disabled_reason": _of(SET_BY_IMPORT, NOBODY, RECORDED),
        "signing_secret": _of(SECRET, NOBODY, RECORDED),
        "old_signing_secret": _of(SECRET, NOBODY, OLD_SECRET),
        "old_signing_secret_until": _of(SECRET, NOBODY, RECORDED),
        "created_at": _of(WRITTEN, NOBODY, TIME_OF_CHANGE),
        "disabled_at": _of(SET_BY_IMPORT, NOBODY, TIME_OF_CHANGE),
        "pulled_at": _of(SET_BY_IMPORT, NOBODY, USE),
    },
    "write_check": {
        "only_row": _of(OF_SERVER, NOBODY, PROCESS),
        "at": _of(OF_SERVER, NOBODY, PROCESS),
    },
}

_KNOWN = [f"{table}.{column}" for table, columns in COLUMNS.items() for column in columns]
# Columns of Keyrack's tables, and of tables with a `customer_id`. An operator may keep other tables in the schema
_UNKNOWN: LiteralString = """
select string_agg(c.relname || '.' || a.attname, ', ' order by c.relname, a.attnum)
from pg_class k join pg_class c on c.relnamespace = k.relnamespace join pg_attribute a on a.attrelid = c.oid
where k.oid = to_regclass('customer') and c.relkind in ('r', 'p') and not c.relispartition
  and a.attnum > 0 and not a.attisdropped and c.relname || '.' || a.attname <> all($1::text[])
  and (c.relname = any($2::text[])
       or exists (select from pg_attribute o where o.attrelid = c.oid and o.attname = 'customer_id'))
"""


async def unknown_columns(statements: Statements) -> str | None:
    """The names of columns without decisions, which a newer release has added; None without any."""
    return await statements.fetchval(_UNKNOWN, _KNOWN, list(COLUMNS))
