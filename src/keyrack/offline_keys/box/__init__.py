"""The reference box: decides on each message, without input, output, clock or randomness of its own."""
