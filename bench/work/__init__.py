"""What runs in worker processes: a class for each kind of measurement, with methods that return JSON values."""
