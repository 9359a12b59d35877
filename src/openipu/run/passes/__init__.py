"""Passes over drafts that are not about half precision: each makes a draft smaller, quicker, or observable."""
