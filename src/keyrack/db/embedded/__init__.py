"""The embedded PostgreSQL: finds its programs, initialises, starts, supervises and stops it."""
