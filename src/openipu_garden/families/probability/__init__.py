"""Probabilities, forecasts and decisions."""
