"""Models that make what they have learned from."""
