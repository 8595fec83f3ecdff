"""In charge of the HTTP edge: the only package that knows Falcon."""
