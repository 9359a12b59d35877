"""The version of the interface that is implemented, as scripts compare it."""

__version__ = "0.7.1"
