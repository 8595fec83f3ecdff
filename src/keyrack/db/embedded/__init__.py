"""In charge of the PostgreSQL that Keyrack brings along: found, laid out, started, watched and stopped."""
