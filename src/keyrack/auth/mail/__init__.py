"""E-mail: templates, and an outbox that is sent by the worker."""
