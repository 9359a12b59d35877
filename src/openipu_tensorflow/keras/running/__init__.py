"""A model's steps as programs of the device."""
