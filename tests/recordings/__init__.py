"""Recorded requests, which show every change of the server's responses.

`record.py` starts the product as an operator does, sends a fixed series of requests and writes each exchange as text
below `data/`. `test_recordings.py` sends the same series and compares the text byte for byte. Nothing here imports the
product, so that the same files run before and after a move of modules.
"""
