"""Settings whose old names are rejected.

An operator who has set a limit or a network by an old name believes that it is in force. So the name is an error, and
its text has the new one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from keyrack.core.settings.secret_files import variable

RENAMED: Mapping[str, str] = {
    "access_seconds": "auth_cache_max_staleness_seconds",
    "access_stretches": "access_max_periods",
    "address_burst": "login_burst_per_address",
    "address_rate": "login_rate_per_address",
    "box_reports": "max_box_reports",
    "bulk_rows": "console_bulk_max_rows",
    "change_poll": "sequencer_poll_seconds",
    "change_rows": "sequencer_batch_rows",
    "changes_days": "changelog_retention_days",
    "client_timeout": "request_read_timeout_seconds",
    "clock_skew": "max_clock_skew_seconds",
    "connections": "max_client_connections",
    "connections_per_address": "max_client_connections_per_address",
    "database_failover": "database_ha",
    "database_proof_seconds": "primary_lease_seconds",
    "delivery_days": "delivery_retention_days",
    "drain_operations": "flush_max_operations",
    "drain_seconds": "flush_timeout_seconds",
    "export_rows": "console_export_max_rows",
    "feed_look": "feed_poll_interval_seconds",
    "feed_queue": "feed_queue_batches",
    "fresh_sign_in_minutes": "reauthentication_minutes",
    "gzip_bytes": "gzip_min_bytes",
    "gzip_thread_bytes": "gzip_offload_min_bytes",
    "history_days": "telemetry_retention_days",
    "hold_seconds": "lock_timeout_seconds",
    "hold_waiting": "customer_lock_max_waiting",
    "ingest_bytes": "ingest_memory_bytes",
    "ingest_key_bytes": "ingest_memory_bytes_per_key",
    "ingest_line": "ingest_max_line_bytes",
    "ingest_lines": "ingest_max_lines",
    "ingest_ratio": "ingest_max_compression_ratio",
    "ingest_refused": "ingest_max_reported_rejections",
    "key_days": "offline_key_retention_days",
    "list_bytes": "list_chunk_bytes",
    "list_rows": "list_chunk_rows",
    "live_customers": "live_tracked_customers",
    "login_burst": "login_burst_per_username_and_address",
    "login_rate": "login_rate_per_username_and_address",
    "max_body": "max_body_bytes",
    "max_header": "max_header_bytes",
    "max_query": "max_query_bytes",
    "migration_seconds": "migration_lock_retry_timeout_seconds",
    "mqtt_refusals": "mqtt_logged_rejections_per_minute",
    "name_burst": "login_burst_per_username",
    "name_rate": "login_rate_per_username",
    "operation_days": "operation_retention_days",
    "overload_seconds": "load_shedding_lag_seconds",
    "person_days": "orphaned_person_retention_days",
    "postgres_log": "postgres_log_max_bytes",
    "provider_seconds": "provider_metadata_ttl_seconds",
    "read_floors": "read_your_writes_customers",
    "read_lag_seconds": "replica_max_lag_seconds",
    "read_timeout": "statement_timeout_seconds",
    "ready_seconds": "health_check_timeout_seconds",
    "refusal_seconds": "denial_log_interval_seconds",
    "share_seconds": "db_queue_timeout_seconds",
    "share_waiting": "db_queue_max_waiting",
    "sign_in_steps_per_manager": "pending_logins_per_manager",
    "slow_client_rate": "min_client_read_bytes_per_second",
    "spool_seconds": "spool_timeout_seconds",
    "stop_delay": "shutdown_delay_seconds",
    "stop_seconds": "shutdown_timeout_seconds",
    "traces_share": "traces_sample_ratio",
    "traces_trust": "traces_trust_parent",
    "unread_bytes": "max_write_buffer_bytes",
    "webhook_networks": "webhook_allowed_networks",
    "webhook_overlap": "webhook_secret_overlap_hours",
    "webhook_refused": "webhook_denied_networks",
    "webhook_waiting": "webhook_max_pending",
}


class OldNameError(ValueError):
    """The environment has the old name of a setting. The text has all of them."""


class OldVariables(PydanticBaseSettingsSource):
    """Reads nothing, and rejects environment variables with the old name of a setting."""

    def __call__(self) -> dict[str, Any]:
        """Raises `OldNameError`."""
        given = {name.upper() for name, value in os.environ.items() if value}
        if old := {variable(name): variable(new) for name, new in RENAMED.items() if variable(name) in given}:
            raise OldNameError(" ".join(rename_note(name, new) for name, new in old.items()))
        return {}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False  # there is none


def rename_note(old: str, new: str) -> str:
    """The text about an old name.

    >>> rename_note("KEYRACK_POOL", "KEYRACK_POOL_SIZE")
    'KEYRACK_POOL is the old name of KEYRACK_POOL_SIZE, and has no effect. Rename it.'
    """
    return f"{old} is the old name of {new}, and has no effect. Rename it."
