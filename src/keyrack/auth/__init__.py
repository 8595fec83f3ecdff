"""In charge of who calls, how often, and of what is stored about people."""
