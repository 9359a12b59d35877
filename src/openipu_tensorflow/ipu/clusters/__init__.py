"""What a script puts on an IPU of a TF1 graph: traced once, run whenever a session is asked for its results."""
