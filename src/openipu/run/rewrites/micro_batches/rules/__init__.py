"""How each family of operators is folded."""
