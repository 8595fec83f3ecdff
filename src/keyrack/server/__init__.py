"""In charge of what runs: a process that serves or works, the loops of its worker, several of them under one parent."""
