"""Networks on images: what is in them, and where."""
