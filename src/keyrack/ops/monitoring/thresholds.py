"""In charge of the numbers from which on something is a warning, or critical: those of deploy/prometheus are the same,
which a test holds. What is judged where it is known (`worker_liveness`, `archive_status`, `housekeeping`) has its
number there.
"""

from __future__ import annotations

OPERATION_AGE = 60.0  # seconds of the oldest operation that waits: critical
DELIVERY_AGE = 3_600.0  # seconds of the oldest delivery that waits
CHANGE_AGE = 30.0  # seconds of the oldest change without a number
DEAD_WITHIN = 3_600  # seconds in which no delivery should have been given up
REPLICA_LAG = 30.0  # seconds
CONNECTIONS_USED = 0.85  # of those that the database takes
DISK_LOW, DISK_FULL = 0.1, 0.03  # of it that is free: a warning, critical
CERTIFICATE_DAYS = 14  # that a webhook's certificate is good for
BACKUP_AGE = 8 * 86_400  # seconds of the last full backup
