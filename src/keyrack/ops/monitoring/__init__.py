"""What operators see of everything that runs: the backlog in the database, and the metrics of all processes."""
