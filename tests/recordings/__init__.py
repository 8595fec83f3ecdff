"""Recorded requests: a net that shows every change of what the server answers.

`record.py` starts the product as an operator does, sends a fixed series of requests and writes each exchange as text
below `data/`. `test_recordings.py` sends the same series and compares the text byte for byte. Nothing here imports the
product, so the same files run before and after its modules move.
"""
