"""In charge of the log of changes: recorded, numbered, proven, read."""
