"""The transparency log: Merkle trees, proofs, signed checkpoints, verification of exports."""
