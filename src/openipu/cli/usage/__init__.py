"""`openipu run --check`: which names of an SDK a script uses, and which of them openipu has."""
