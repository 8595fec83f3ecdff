"""In charge of the reference box: what one does with what comes, without input, output, clock or chance of its own."""
