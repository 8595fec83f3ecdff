"""In charge of backups of the embedded database: taken, kept, verified, restored, and tried."""
