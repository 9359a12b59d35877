"""Raw ops of the driver."""
