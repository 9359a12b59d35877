"""What `popart.Builder` is made of."""
