"""Keys that open boxes without a network.

Entry: `key_issuing`, `status_lists`, `box_logs`, `endpoints`; the reference is `box`, `phone` and `phone_conversation`.
Must not: let the reference depend on the server, or issue a key that an assignment does not cover.
"""
