"""The commands of `keyrack`, one module per noun; `keyrack.cli` puts them together."""
