"""In charge of every resource and every field, once; and of the forms of bodies."""
