"""The revisions of the schema. A released one never changes."""
