"""The settings that every operator should know, in the order of docs/settings.md.

All other settings have defaults that fit most installations.
"""

from __future__ import annotations

ESSENTIAL: tuple[str, ...] = (
    # Address and proxies
    "public_url",
    "brand",
    "trusted_proxies",
    "cors_origins",
    "config",
    # Database
    "database_url",
    "database_direct_url",
    "database_ha",
    "read_database_url",
    "pool_size",
    "state",
    # Keys
    "master_key",
    "master_key_file",
    "checkpoint_key_file",
    "checkpoint_directory",
    # Backups
    "backup_directory",
    "backup_keep",
    # Mail
    "mail_host",
    "mail_port",
    "mail_tls",
    "mail_user",
    "mail_password",
    "mail_from",
    # Access
    "clients_without_key",
    "session_minutes",
    "session_hours",
    "provider_networks",
    "assignment_rate",
    # Webhooks
    "webhook_allowed_networks",
    "webhook_denied_networks",
    "webhook_retry_for",
    # Retention
    "changelog_retention_days",
    "telemetry_retention_days",
    "offline_key_retention_days",
    "delivery_retention_days",
    "orphaned_person_retention_days",
    # Telemetry and maps
    "mqtt_url",
    "mqtt_topic",
    "map_tiles",
    # Monitoring
    "metrics",
    "log_level",
    "access_log",
    "traces",
    # Shutdown
    "shutdown_delay_seconds",
    "shutdown_timeout_seconds",
)
