"""Plans of programs whose tensors and vertices a user placed on tiles."""
