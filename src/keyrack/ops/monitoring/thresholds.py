"""Thresholds of warnings and critical findings.

The rules in deploy/prometheus have the same values; a test compares them. `worker_liveness`, `archive_status` and
`housekeeping` have thresholds of their own.
"""

from __future__ import annotations

OPERATION_AGE = 60.0  # age of the oldest pending operation (seconds): critical
DELIVERY_AGE = 3_600.0  # age of the oldest waiting delivery (seconds)
CHANGE_AGE = 30.0  # age of the oldest change without a sequence number (seconds)
PERSON_CHANGE_AGE = 900.0  # age of the oldest change of a person that another cell has not got (seconds)
DEAD_WITHIN = 3_600  # seconds without a dead delivery
REPLICA_LAG = 30.0  # seconds
CONNECTIONS_USED = 0.85  # fraction of the maximum
DISK_LOW, DISK_FULL = 0.1, 0.03  # free fraction: warning, critical
CERTIFICATE_DAYS = 14  # remaining validity of a webhook's certificate
BACKUP_AGE = 8 * 86_400  # age of the last full backup (seconds)
