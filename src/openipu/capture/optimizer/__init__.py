"""The optimizer: its structure, its update rules in plain torch, and the update as a graph."""
