"""Drivers' accounts, their requests, and the app at `/drive`.

Entry: `sessions` for requests, `endpoints`, and `app` for the static files.
Must not: show a driver another driver, or let a driver act outside of the own customers.
"""
