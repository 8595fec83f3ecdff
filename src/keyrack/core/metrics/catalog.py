"""All metrics. docs/metrics.md is generated from this module.

Every process counts `OF_PROCESS`. The process that serves the endpoint adds `OF_SERVER`, once for all processes. To add
a metric, add a row here and a call at its place in the code.
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
    "Requests that were answered. `route` is a template such as `/cars/{carId}`; `unknown` for a path without a "
    "route, and `none` if the request was rejected before routing. `method` is `other` if no endpoint has the method.",
    "method", "route", "status",
)  # fmt: skip
REQUEST_SECONDS = Histogram(
    "keyrack_http_request_duration_seconds",
    "Time from the head of a request to the end of its response; for a live stream, to the start of the response.",
    "method", "route",
)  # fmt: skip
UNDER_WAY = Gauge("keyrack_http_requests_in_progress", "Requests in progress, including live streams.")
CONNECTIONS = Gauge("keyrack_http_connections", "Open client connections.")
STREAMS = Gauge("keyrack_live_streams", "Open live streams.")
ERROR_RESPONSES = Counter(
    "keyrack_error_responses_total",
    "Error responses by code (docs/errors.md) and status, including those of pages and of items in a batch.",
    "code", "status",
)  # fmt: skip
LIMITS = Counter(
    "keyrack_limits_reached_total",
    "Times that a limit was reached. `limit` is the name of a rate limit, or `connections`, `connections-of-address`,"
    " `slow-clients`, `unread-bytes`, `live-streams`, `live-queue`, `outcome-waits`, `queue-waiting`, `queue-seconds`"
    " or `holds`.",
    "limit",
    initial_labels=(
        "address", "challenge", "codes", "login", "name", "invitations", "users", "assignments", "dry-runs", "webhooks",
        "revocations", "box-times", "box-times-of-user", "box-enrolments", "phone-registrations", "phone-mails",
        "connections", "connections-of-address", "slow-clients", "unread-bytes", "live-streams", "live-queue",
        "outcome-waits", "queue-waiting", "queue-seconds", "holds",
    ),
)  # fmt: skip

# Callers

LOGINS = Counter(
    "keyrack_logins_total",
    "Logins with a password: `accepted`, `wrong` (unknown name or wrong password), `limited`, or `failed` if an error"
    " prevented the check.",
    "result", initial_labels=("accepted", "wrong", "limited", "failed"),
)  # fmt: skip
MAILS = Counter(
    "keyrack_mails_total",
    "Mails: `sent`, `failed` (will be retried), `refused` (rejected permanently by the mail server) or `given up`.",
    "result", initial_labels=("sent", "failed", "refused", "given up"),
)  # fmt: skip
PUSH_MESSAGES = Counter(
    "keyrack_push_messages_total",
    "Web Push messages to drivers: `sent`, `failed` (will be retried), `refused` (rejected by the push service), `gone`"
    " (the subscription has ended) or `given up`.",
    "result", initial_labels=("sent", "failed", "refused", "gone", "given up"),
)  # fmt: skip
PERSON_CHANGES = Counter(
    "keyrack_person_changes_total",
    "Changes of persons for other cells: `delivered`, `erased` or `failed` (will be retried).",
    "result", initial_labels=("delivered", "erased", "failed"),
)  # fmt: skip
LOOKUPS = Counter(
    "keyrack_access_cache_lookups_total",
    "Lookups of keys, tokens, managers, devices and signing keys: answered from the cache (`hit`) or by the database "
    "(`miss`).",
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
    "Time of a database statement until its rows have arrived. `pool` is the application name of the connections.",
    "pool",
)  # fmt: skip
READS = Counter(
    "keyrack_reads_total",
    "Reads by server, if there are replicas: a `replica`, or the primary for one of three reasons. `leader-only`: only "
    "the primary may answer. `leader-ahead`: no replica was recent enough. `leader-after`: a replica failed or did not "
    "have the row.",
    "server",
    initial_labels=("replica", "leader-only", "leader-ahead", "leader-after"),
)  # fmt: skip
READ_LAG = Gauge(
    "keyrack_read_replica_lag_seconds",
    "Upper bound of the lag of a replica behind the primary, as the process sees it. `replica` is the host and port "
    "in the address. Missing if the lag is unknown or above a minute.",
    "replica",
)  # fmt: skip
LISTENERS = Gauge("keyrack_database_listeners", "Connections that listen for notifications of the database.")

# Work

OPERATIONS = Counter(
    "keyrack_operations_applied_total",
    "Operations on assignments that were applied: `succeeded` or `failed`.",
    "result",
    initial_labels=("succeeded", "failed"),
)
OPERATION_SECONDS = Histogram(
    "keyrack_operation_wait_duration_seconds",
    "Time from the request of an operation until it was applied.",
    bounds=LONG,
)
ATTEMPTS = Counter(
    "keyrack_delivery_attempts_total",
    "Attempts to deliver to webhooks: `delivered`, `refused` (a status other than 2xx) or `unanswered`.",
    "result", initial_labels=("delivered", "refused", "unanswered"),
)  # fmt: skip
ATTEMPT_SECONDS = Histogram("keyrack_delivery_attempt_duration_seconds", "Time of an attempt to deliver to a webhook.")
DELIVERY_SECONDS = Histogram(
    "keyrack_delivery_wait_duration_seconds", "Time from an outcome until it was delivered.", bounds=LONG
)
# Not "keyrack_deliveries_dead_total": OpenMetrics gives that family the name of the gauge `keyrack_deliveries_dead`
DELIVERIES_MARKED_DEAD = Counter(
    "keyrack_deliveries_marked_dead_total", "Deliveries marked dead after their last retry."
)

# The change log

CHANGES_SEQUENCED = Counter("keyrack_changes_sequenced_total", "Changes that got their sequence number.")
SEQUENCING_DELAY = Histogram(
    "keyrack_change_sequencing_delay_seconds", "Time from a change until it got its sequence number.", bounds=LONG
)
CHECKPOINTS = Counter("keyrack_checkpoints_made_total", "Checkpoints of change logs that were signed.")
CHECKPOINTS_PUBLISHED = Counter(
    "keyrack_checkpoints_published_total", "Copies of checkpoints that were written to the checkpoint directory."
)

# Telemetry and events

SAMPLES = Counter(
    "keyrack_telemetry_samples_total",
    "Samples of units: `accepted`, `duplicate` or `refused`.",
    "result",
    initial_labels=("accepted", "duplicate", "refused"),
)
EVENTS = Counter(
    "keyrack_events_total",
    "Events of cars, single or delivered in batches: `accepted`, `duplicate` or `refused`.",
    "result",
    initial_labels=("accepted", "duplicate", "refused"),
)

# The process

LOOP_SECONDS = Histogram("keyrack_event_loop_lag_seconds", "Event-loop lag: delay of a timer that runs twice a second.")
SPANS = Counter(
    "keyrack_trace_spans_total",
    "Spans of traces: `exported`, `dropped` because the queue was full, or `failed` because the collector did not "
    "accept them.",
    "result", initial_labels=("exported", "dropped", "failed"),
)  # fmt: skip
PROCESS = Gauge("keyrack_process_info", "Version and role of the process; the value is 1.", "version", "python", "role")

# Selected customers

CUSTOMERS = Customers()
REQUESTS_OF = OfCustomers(
    CUSTOMERS, "keyrack_customer_requests_total", "Requests for a customer by class of status, such as `2xx`.", "status"
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
    REQUESTS, REQUEST_SECONDS, UNDER_WAY, CONNECTIONS, STREAMS, ERROR_RESPONSES, LIMITS, LOGINS, MAILS, PUSH_MESSAGES,
    PERSON_CHANGES, LOOKUPS, QUEUE_CAPACITY, QUEUE_IN_USE, QUEUE_WAITING, QUEUE_SECONDS, STATEMENT_SECONDS, READS,
    READ_LAG, LISTENERS, OPERATIONS, OPERATION_SECONDS, ATTEMPTS, ATTEMPT_SECONDS, DELIVERY_SECONDS,
    DELIVERIES_MARKED_DEAD, CHANGES_SEQUENCED, SEQUENCING_DELAY, CHECKPOINTS, CHECKPOINTS_PUBLISHED, SAMPLES, EVENTS,
    LOOP_SECONDS, SPANS, PROCESS, DROPPED, REQUESTS_OF, OPERATIONS_OF, ATTEMPTS_OF, SAMPLES_OF,
)  # fmt: skip

# Reported once, by the process that serves the endpoint. If `keyrack_database_up` is 0, the others have no series

UP = Gauge("keyrack_process_up", "1 if the process has answered in time, otherwise 0.", "process")
DATABASE_UP = Gauge(
    "keyrack_database_up",
    "1 if the database has answered in time. Otherwise 0, and the metrics read from the database are missing.",
)
PENDING = Gauge("keyrack_operations_pending", "Operations that wait to be applied; counted up to 10,000.")
PENDING_AGE = Gauge(
    "keyrack_operations_pending_oldest_age_seconds",
    "Age of the oldest pending operation, 0 if none waits. Covers the first 1,000 customers with pending operations.",
)
WAITING = Gauge("keyrack_deliveries_waiting", "Deliveries that wait for webhooks; counted up to 10,000.")
WAITING_AGE = Gauge(
    "keyrack_deliveries_waiting_oldest_age_seconds",
    "Age of the oldest delivery that waits for an enabled webhook, 0 if none waits. Covers the first 1,000 webhooks "
    "with waiting deliveries, and of each the first 100 deliveries in the order of their assignments.",
)
UNSEQUENCED_AGE = Gauge(
    "keyrack_changes_unsequenced_oldest_age_seconds",
    "Age of the oldest change without a sequence number, 0 if none waits.",
)
UNDELIVERED_PERSONS_AGE = Gauge(
    "keyrack_person_changes_undelivered_oldest_age_seconds",
    "Age of the oldest change or erasure of a person that another cell has not got, 0 if none waits.",
)
CHECKPOINT_FAILED_LOGS = Gauge(
    "keyrack_checkpoint_failed_logs",
    "Changelogs that do not match their last checkpoint and get no new one; counted up to 10,000.",
)
DEAD = Gauge("keyrack_deliveries_dead", "Dead deliveries that are kept; counted up to 10,000.")
DISABLED = Gauge("keyrack_webhooks_disabled", "Disabled webhooks; counted up to 10,000.")
LAST_SUCCESS = Gauge(
    "keyrack_housekeeping_last_success_timestamp_seconds",
    "Time of a housekeeping task's last success, in seconds since 1970; missing before the first success.",
    "step",
)  # fmt: skip
FAILURES = Gauge("keyrack_housekeeping_failures", "Failures of a housekeeping task since its last success.", "step")
LATE = Gauge(
    "keyrack_housekeeping_late", "1 if a housekeeping task has not succeeded for several rounds, otherwise 0.", "step"
)
DATABASE_BYTES = Gauge("keyrack_database_size_bytes", "Size of the database on disk.")
SESSIONS = Gauge(
    "keyrack_database_connections",
    "Connections to the database server by application name; `other` for those of other programs.",
    "application",
)  # fmt: skip
MOST_SESSIONS = Gauge(
    "keyrack_database_connections_max", "Maximum number of connections that the database server accepts."
)
LIVING = Gauge(
    "keyrack_processes",
    "Processes of all machines with a heartbeat within the last minute, by role: `serve` or `work`. A process with "
    "both roles counts in each.",
    "role",
)  # fmt: skip
PENDING_WITHOUT_WORKER = Gauge(
    "keyrack_pending_without_worker_seconds",
    "How long work has been pending without a running worker; 0 if a worker runs, or nothing has waited for a minute.",
)
REPLICA_LAG = Gauge(
    "keyrack_replica_lag_seconds",
    "Replay lag of a replica, as the primary sees it; missing without the rights of `pg_monitor`.",
    "replica",
)  # fmt: skip
REPLICA_BYTES = Gauge("keyrack_replica_lag_bytes", "Write-ahead log that the replica has not replayed yet.", "replica")
ARCHIVE_AGE = Gauge(
    "keyrack_archive_age_seconds",
    "Age of the last archived segment of the write-ahead log; missing if archiving is off, or if nothing was archived"
    " since the counters were reset.",
)
ARCHIVE_LATE = Gauge(
    "keyrack_archive_late",
    "1 if the last archived segment is ten minutes older than it should be, or, if the age is unknown, if archiving "
    "fails; otherwise 0.",
)

OF_DATABASE: tuple[Gauge, ...] = (
    PENDING, PENDING_AGE, WAITING, WAITING_AGE, UNSEQUENCED_AGE, UNDELIVERED_PERSONS_AGE, CHECKPOINT_FAILED_LOGS,
    DEAD, DISABLED, LAST_SUCCESS, FAILURES, LATE, DATABASE_BYTES, SESSIONS, MOST_SESSIONS, LIVING,
    PENDING_WITHOUT_WORKER, REPLICA_LAG, REPLICA_BYTES, ARCHIVE_AGE, ARCHIVE_LATE,
)  # fmt: skip
OF_SERVER: tuple[Instrument, ...] = (UP, DATABASE_UP, *OF_DATABASE)

# Metrics of the operating system for each process, with the names of Prometheus' library
OF_SYSTEM = (
    ("keyrack_process_cpu_seconds_total", "counter", "CPU time that the process has used."),
    ("keyrack_process_resident_memory_bytes", "gauge", "Resident memory of the process."),
    ("keyrack_process_virtual_memory_bytes", "gauge", "Virtual memory of the process."),
    ("keyrack_process_start_time_seconds", "gauge", "Start time of the process, in seconds since 1970."),
    ("keyrack_process_open_fds", "gauge", "Open files and connections of the process."),
    ("keyrack_process_max_fds", "gauge", "Limit of open files and connections of the process."),
)
