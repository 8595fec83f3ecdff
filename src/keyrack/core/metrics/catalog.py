"""In charge of the table of what is measured. docs/metrics.md is made from it.

`OF_PROCESS` are counted by every process; whoever serves the port tells `OF_SERVER` besides, once for all of them.
To add one: a line here, and a call where it happens.
"""

from __future__ import annotations

from keyrack.core.metrics.instruments import (
    DROPPED,
    LONG,
    Counter,
    Customers,
    Gauge,
    Histogram,
    Instrument,
    OfCustomers,
)

# Requests

REQUESTS = Counter(
    "keyrack_http_requests_total",
    "Requests that were answered. The route is a template such as `/cars/{carId}`, `unknown` for a path that there is "
    "not, and `none` for what was refused before it had one; the method is `other` where no endpoint has it.",
    "method", "route", "status",
)  # fmt: skip
REQUEST_SECONDS = Histogram(
    "keyrack_http_request_duration_seconds",
    "Time from a request's head to the end of its answer; of a live stream to the beginning.",
    "method", "route",
)  # fmt: skip
UNDER_WAY = Gauge("keyrack_http_requests_in_progress", "Requests that are being answered; live streams among them.")
CONNECTIONS = Gauge("keyrack_http_connections", "Connections of clients that are open.")
STREAMS = Gauge("keyrack_live_streams", "Live streams that are open.")
ERROR_RESPONSES = Counter(
    "keyrack_error_responses_total",
    "Error responses by code (docs/errors.md) and status, including those of pages and of items in a batch.",
    "code", "status",
)  # fmt: skip
LIMITS = Counter(
    "keyrack_limits_reached_total",
    "Times that a bound was reached: a rate limit by its name, `connections`, `connections-of-address`, "
    "`slow-clients`, `unread-bytes`, `live-streams`, `live-queue`, `queue-waiting`, `queue-seconds`, `holds`.",
    "limit",
    initial_labels=(
        "address", "challenge", "codes", "login", "name", "invitations", "users", "assignments", "dry-runs", "webhooks",
        "revocations", "box-times", "box-times-of-user", "box-enrolments", "phone-registrations", "phone-mails",
        "connections", "connections-of-address", "slow-clients", "unread-bytes", "live-streams", "live-queue",
        "queue-waiting", "queue-seconds", "holds",
    ),
)  # fmt: skip

# Who calls

LOGINS = Counter(
    "keyrack_logins_total",
    "Logins with a password: `accepted`, `wrong` (unknown name or wrong password), `limited`, or `failed` if an error "
    "prevented the check.",
    "result", initial_labels=("accepted", "wrong", "limited", "failed"),
)  # fmt: skip
MAILS = Counter(
    "keyrack_mails_total",
    "Mails: `sent`, `failed` where the server will be asked again, `refused` by it for good, and `given up`.",
    "result", initial_labels=("sent", "failed", "refused", "given up"),
)  # fmt: skip
LOOKUPS = Counter(
    "keyrack_access_cache_lookups_total",
    "Questions about keys, tokens, managers, devices and signing keys that were answered from memory (`hit`), or had "
    "to be asked (`miss`).",
    "cache", "result",
)  # fmt: skip

# The database

QUEUE_CAPACITY = Gauge(
    "keyrack_queue_capacity",
    "Capacity of a queue's resource: database connections by their application name, and threads for `passwords`.",
    "queue",
)  # fmt: skip
QUEUE_IN_USE = Gauge("keyrack_queue_in_use", "Connections or threads of the queue in use.", "queue")
QUEUE_WAITING = Gauge("keyrack_queue_waiting", "Callers that wait in the queue.", "queue")
QUEUE_SECONDS = Histogram(
    "keyrack_queue_wait_duration_seconds",
    "Time that callers spent in the queue; callers that did not wait are not counted.",
    "queue",
)
STATEMENT_SECONDS = Histogram(
    "keyrack_database_statement_duration_seconds",
    "Time of a statement of the database, until its rows are here; by the name of the connections.",
    "pool",
)  # fmt: skip
READS = Counter(
    "keyrack_reads_total",
    "Reads by the server that answered, where there are replicas: a `replica`, or the leader because only "
    "it answers this (`leader-only`), because no replica was far enough (`leader-ahead`), or because one had failed or "
    "had not found it (`leader-after`).",
    "server",
    initial_labels=("replica", "leader-only", "leader-ahead", "leader-after"),
)  # fmt: skip
READ_LAG = Gauge(
    "keyrack_read_replica_lag_seconds",
    "Seconds that a replica is behind the leader at most, as the process sees it, by the host and the port that the "
    "address names; none where that is more than a minute, or not known.",
    "replica",
)  # fmt: skip
LISTENERS = Gauge("keyrack_database_listeners", "Connections that hear the database's notices.")

# Work

OPERATIONS = Counter(
    "keyrack_operations_applied_total",
    "Operations on assignments that were applied: `succeeded` or `failed`.",
    "result",
    initial_labels=("succeeded", "failed"),
)
OPERATION_SECONDS = Histogram(
    "keyrack_operation_wait_duration_seconds",
    "Time from an operation's request until it was applied.",
    bounds=LONG,
)
ATTEMPTS = Counter(
    "keyrack_delivery_attempts_total",
    "Attempts to deliver to webhooks: `delivered`, `refused` (answered with another status than 2xx), `unanswered`.",
    "result", initial_labels=("delivered", "refused", "unanswered"),
)  # fmt: skip
ATTEMPT_SECONDS = Histogram("keyrack_delivery_attempt_duration_seconds", "Time of such an attempt.")
DELIVERY_SECONDS = Histogram(
    "keyrack_delivery_wait_duration_seconds", "Time from an outcome until it was delivered.", bounds=LONG
)
# Not "keyrack_deliveries_dead_total": OpenMetrics names that family like the gauge `keyrack_deliveries_dead`
DELIVERIES_MARKED_DEAD = Counter(
    "keyrack_deliveries_marked_dead_total", "Deliveries marked dead after their last retry."
)

# The log of changes

CHANGES_SEQUENCED = Counter("keyrack_changes_sequenced_total", "Changes that got their sequence number.")
SEQUENCING_DELAY = Histogram(
    "keyrack_change_sequencing_delay_seconds", "Time from a change until it got its sequence number.", bounds=LONG
)
CHECKPOINTS = Counter("keyrack_checkpoints_made_total", "Checkpoints of logs of changes that were signed.")
CHECKPOINTS_PUBLISHED = Counter(
    "keyrack_checkpoints_published_total", "Copies of checkpoints that were written to the directory for them."
)

# What units tell

SAMPLES = Counter(
    "keyrack_telemetry_samples_total",
    "Samples of units: `accepted`, `duplicate` or `refused`.",
    "result",
    initial_labels=("accepted", "duplicate", "refused"),
)
EVENTS = Counter(
    "keyrack_events_total",
    "Events of cars, one by one or delivered: `accepted`, `duplicate` or `refused`.",
    "result",
    initial_labels=("accepted", "duplicate", "refused"),
)

# The process

LOOP_SECONDS = Histogram(
    "keyrack_event_loop_lag_seconds", "By how much a timer of the process, twice a second, was late."
)
SPANS = Counter(
    "keyrack_trace_spans_total",
    "Spans of traces: `exported`, `dropped` because the queue was full, or `failed` because the collector did not take "
    "them.",
    "result", initial_labels=("exported", "dropped", "failed"),
)  # fmt: skip
PROCESS = Gauge("keyrack_process_info", "What runs here: 1.", "version", "python", "role")

# Customers that were asked for

CUSTOMERS = Customers()
REQUESTS_OF = OfCustomers(
    CUSTOMERS, "keyrack_customer_requests_total", "Requests for a customer, by class of status, as `2xx`.", "status"
)
OPERATIONS_OF = OfCustomers(
    CUSTOMERS, "keyrack_customer_operations_applied_total", "Operations of a customer that were applied."
)
ATTEMPTS_OF = OfCustomers(
    CUSTOMERS, "keyrack_customer_delivery_attempts_total", "Attempts to deliver to a customer's webhooks.", "result"
)
SAMPLES_OF = OfCustomers(
    CUSTOMERS, "keyrack_customer_telemetry_samples_total", "Samples of a customer's units.", "result"
)

OF_PROCESS: tuple[Instrument, ...] = (
    REQUESTS, REQUEST_SECONDS, UNDER_WAY, CONNECTIONS, STREAMS, ERROR_RESPONSES, LIMITS, LOGINS, MAILS, LOOKUPS,
    QUEUE_CAPACITY, QUEUE_IN_USE, QUEUE_WAITING, QUEUE_SECONDS, STATEMENT_SECONDS, READS, READ_LAG, LISTENERS,
    OPERATIONS, OPERATION_SECONDS, ATTEMPTS, ATTEMPT_SECONDS, DELIVERY_SECONDS, DELIVERIES_MARKED_DEAD,
    CHANGES_SEQUENCED, SEQUENCING_DELAY, CHECKPOINTS, CHECKPOINTS_PUBLISHED, SAMPLES, EVENTS, LOOP_SECONDS, SPANS,
    PROCESS, DROPPED, REQUESTS_OF, OPERATIONS_OF, ATTEMPTS_OF, SAMPLES_OF,
)  # fmt: skip

# Told once, by whoever serves the port. What is not known has no series: `keyrack_database_up` says so

UP = Gauge("keyrack_process_up", "Whether the process has answered in time: 1, else 0.", "process")
DATABASE_UP = Gauge(
    "keyrack_database_up", "Whether the database has answered in time: 1; else 0, and what follows is not known."
)
PENDING = Gauge("keyrack_operations_pending", "Operations that wait to be applied; 10,000 stands for more, too.")
PENDING_AGE = Gauge(
    "keyrack_operations_pending_oldest_age_seconds",
    "Age of the oldest of them, 0 where none waits; of the first 1,000 customers that have any.",
)
WAITING = Gauge("keyrack_deliveries_waiting", "Deliveries that wait for webhooks; 10,000 stands for more, too.")
WAITING_AGE = Gauge(
    "keyrack_deliveries_waiting_oldest_age_seconds",
    "Age of the oldest that waits for an enabled webhook, 0 where none does; of the first 1,000 webhooks that have "
    "any, and of each the 100 first in the order of their assignments.",
)
UNSEQUENCED_AGE = Gauge(
    "keyrack_changes_unsequenced_oldest_age_seconds",
    "Age of the oldest change without a sequence number, 0 if none waits.",
)
CHECKPOINT_FAILED_LOGS = Gauge(
    "keyrack_checkpoint_failed_logs",
    "Changelogs that do not match their last checkpoint and get no new one; counted up to 10,000.",
)
DEAD = Gauge("keyrack_deliveries_dead", "Deliveries that were given up, and are kept; 10,000 stands for more, too.")
DISABLED = Gauge("keyrack_webhooks_disabled", "Webhooks that are disabled; 10,000 stands for more, too.")
LAST_SUCCESS = Gauge(
    "keyrack_housekeeping_last_success_timestamp_seconds",
    "Time of a housekeeping step's last success, in seconds since 1970; missing before the first success.",
    "step",
)  # fmt: skip
FAILURES = Gauge("keyrack_housekeeping_failures", "How often a step has not gone well since it last did.", "step")
LATE = Gauge("keyrack_housekeeping_late", "Whether a step has not gone well for several rounds: 1, else 0.", "step")
DATABASE_BYTES = Gauge("keyrack_database_size_bytes", "Size of the database on its disk.")
SESSIONS = Gauge(
    "keyrack_database_connections",
    "Connections to the database by the name that the program gave, `other` for those that are not Keyrack's.",
    "application",
)  # fmt: skip
MOST_SESSIONS = Gauge("keyrack_database_connections_max", "Connections that the database's server takes, at most.")
LIVING = Gauge(
    "keyrack_processes",
    "Processes on the database that have made a heartbeat within a minute, on whatever machine: those that `serve`, "
    "and those that `work`; one that does both counts in each.",
    "role",
)  # fmt: skip
PENDING_WITHOUT_WORKER = Gauge(
    "keyrack_pending_without_worker_seconds",
    "How long work has been pending without a running worker; 0 if a worker runs, or nothing has waited for a minute.",
)
REPLICA_LAG = Gauge(
    "keyrack_replica_lag_seconds",
    "How far a replica is behind with replaying the log, as the leader sees it; without the rights of `pg_monitor` it "
    "is not known.",
    "replica",
)  # fmt: skip
REPLICA_BYTES = Gauge("keyrack_replica_lag_bytes", "The log that it has not replayed yet.", "replica")
ARCHIVE_AGE = Gauge(
    "keyrack_archive_age_seconds",
    "Age of the last archived piece of the database's log, where it is archived, and was since the counters began.",
)
ARCHIVE_LATE = Gauge(
    "keyrack_archive_late",
    "Whether that is ten minutes older than it should be; where nobody can say, whether the archiving fails: 1, else "
    "0.",
)

OF_DATABASE: tuple[Gauge, ...] = (
    PENDING, PENDING_AGE, WAITING, WAITING_AGE, UNSEQUENCED_AGE, CHECKPOINT_FAILED_LOGS, DEAD, DISABLED, LAST_SUCCESS,
    FAILURES, LATE, DATABASE_BYTES, SESSIONS, MOST_SESSIONS, LIVING, PENDING_WITHOUT_WORKER, REPLICA_LAG, REPLICA_BYTES,
    ARCHIVE_AGE, ARCHIVE_LATE,
)  # fmt: skip
OF_SERVER: tuple[Instrument, ...] = (UP, DATABASE_UP, *OF_DATABASE)

# What the system tells of each process: named by Prometheus' own library
OF_SYSTEM = (
    ("keyrack_process_cpu_seconds_total", "counter", "Time of processors that it has used."),
    ("keyrack_process_resident_memory_bytes", "gauge", "Memory that it has in RAM."),
    ("keyrack_process_virtual_memory_bytes", "gauge", "Memory that it has addresses for."),
    ("keyrack_process_start_time_seconds", "gauge", "When it began, in seconds since 1970."),
    ("keyrack_process_open_fds", "gauge", "Files and connections that it has open."),
    ("keyrack_process_max_fds", "gauge", "Files and connections that it may have open."),
)
