"""Asynchronous work on assignments: submission, ordering, rules, application.

Entry: `submission` to ask for work, `customer_lock` before a change of what it depends on, `scheduler`.
Must not: make a network call, or apply an operation outside its customer's order.
"""
