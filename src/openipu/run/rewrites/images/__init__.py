"""Convolutions and what surrounds them: how images lie in memory, and whose code computes them."""
