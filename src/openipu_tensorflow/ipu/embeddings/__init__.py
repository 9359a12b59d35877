"""Tables that are too large for an IPU."""
