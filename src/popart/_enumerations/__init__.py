"""Enumerations of PopART 3.4, with its names and numbers."""
