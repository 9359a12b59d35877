"""Enumerations of the driver's messages."""
