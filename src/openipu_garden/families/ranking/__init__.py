"""What to show to whom."""
