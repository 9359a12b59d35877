"""Loading data in another process while the model runs."""
