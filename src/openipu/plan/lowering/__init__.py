"""Pass "lower" and what it is made of: FX graphs become tasks, with every operand brought to where it is read."""
