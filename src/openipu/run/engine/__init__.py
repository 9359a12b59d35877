"""The engine: how a program's step is executed, when it is built again, and every pass in order."""
