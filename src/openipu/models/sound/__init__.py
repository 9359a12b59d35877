"""Speech, heard and spoken."""
