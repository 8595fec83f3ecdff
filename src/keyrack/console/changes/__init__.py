"""The words in which the console describes a change."""
