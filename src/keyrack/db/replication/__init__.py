"""High availability: finds the primary, proves that it still is one, routes reads to replicas."""
