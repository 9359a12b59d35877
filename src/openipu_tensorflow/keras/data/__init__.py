"""What an IPU asks of a model's data, and how it reaches the device."""
