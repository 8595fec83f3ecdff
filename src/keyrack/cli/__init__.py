"""The command line: one module per noun below `commands`, put together by `main`.

Entry: `main`, the entry point `keyrack`.
Must not: be imported by another package.
"""
