"""In charge of asynchronous work on assignments: asked for, and applied in order."""
