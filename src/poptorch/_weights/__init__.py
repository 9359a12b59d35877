"""Weights, which live twice: on the host and on the device."""
