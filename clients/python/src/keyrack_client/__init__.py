"""Client of Keyrack: who may open which vehicle, and when."""
