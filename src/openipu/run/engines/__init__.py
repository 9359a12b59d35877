"""Engines: how a program's step is executed, which of them runs, and every pass of each in order."""
