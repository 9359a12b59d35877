"""Ops of the plugin by their raw names."""
