"""Graphs of things that are joined."""
