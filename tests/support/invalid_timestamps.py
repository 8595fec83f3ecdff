"""Texts that look like timestamps and are invalid."""

# Not valid by RFC 3339 with Z or an offset, though many parsers accept them
NO_MOMENTS = (
    "2026-01-01T10:00:00", "2026-01-01T10:00Z", "2026-01-01 10:00:00Z", "2026-01-01T10:00:00,5Z", "2026-01-01",
    "2026-01-01T10:00:00.Z", "2026-01-01T10:00:00+0100", "2026-01-01T10:00:00+01", "2026-01-01T10:00:00\u221201:00",
    "2026-01-01T24:00:00Z", "2026-01-01T10:00:61Z", "2026-02-30T10:00:00Z", "2026-W01-1T10:00:00Z", "20260101T100000Z",
    "2026-01-01T10:00:00+24:00", "9999-12-31T23:59:60Z", "0001-01-01T00:00:00+01:00",
    "1767261600", "now", "", "2026-01-01T08:00:60Z", "2026-01-15T23:59:60Z", "2026-01-31T23:59:60+01:00",
)  # fmt: skip
# Also invalid in bodies. Blanks around a value of a query string are ignored
NO_MOMENTS_OF_BODIES = (*NO_MOMENTS, " 2026-01-01T10:00:00Z")
