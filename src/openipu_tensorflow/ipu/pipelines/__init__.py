"""Pipelines: stages over the IPUs of a device, and the options that they have."""
