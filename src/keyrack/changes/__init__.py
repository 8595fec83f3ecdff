"""In charge of the log of changes: every change of a customer's data with its number, and the feed of them."""
