"""How each family of operators is batched."""
