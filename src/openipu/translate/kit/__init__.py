"""What every framework does a little differently, written once: division, casts, padding, pooling, resizing, gates."""
