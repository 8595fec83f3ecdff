"""Mail: what people are written, and how it gets to a server that takes it."""
