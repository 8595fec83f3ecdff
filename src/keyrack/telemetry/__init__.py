"""Telemetry: ingest by HTTP and MQTT, the newest state, runs, rollups and history.

Entry: `ingest` and `mqtt` for data, `schema` and `endpoints` for reads, `history` for housekeeping.
Must not: reject a whole delivery because of one bad line.
"""
