"""The reference box: it decides on each message.

It has no input, output, clock or randomness of its own.
"""
