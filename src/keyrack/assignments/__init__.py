"""Asynchronous work on assignments: submission, ordering, rules, application.

Entry: `submission` for new operations, `customer_lock` before a change of what they depend on, `scheduler`.
Must not: make a network call, or apply an operation outside its customer's order.
"""
