"""Golden files: public and shared names and texts that must not change unnoticed."""
