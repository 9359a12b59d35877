"""Images: what is in them, and where."""
