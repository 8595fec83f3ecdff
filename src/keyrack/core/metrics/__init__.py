"""What Keyrack counts and measures, and how that is shown to Prometheus."""
