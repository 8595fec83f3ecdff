"""In charge of outcomes told by webhook: published, claimed, signed, sent, recorded, replayed, verified."""
