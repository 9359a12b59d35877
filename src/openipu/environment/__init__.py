"""The original's environment variables: engine options and log levels; and which optional packages are here."""
