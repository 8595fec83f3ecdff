"""A client of the API for commands and simulations: sign-in, retries, pages. It imports no other package."""
