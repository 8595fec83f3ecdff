"""Keys that open boxes without a network: authority, issuing, status lists, box logs, reference box.

Entry: `key_issuing`, `status_lists`, `box_logs`, `endpoints`; `box` and `phone` are the reference.
Must not: let `box` or `phone` depend on the server, or issue a key that an assignment does not cover.
"""
