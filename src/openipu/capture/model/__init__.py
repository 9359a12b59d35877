"""The user's model around a recording: arguments, meta twins of its weights, what forward returns."""
