"""In charge of trying what an operator relies on, with the programs that an operator runs: a cluster, its failures."""
