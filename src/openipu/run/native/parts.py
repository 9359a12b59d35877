"""Names of the parts of a cache entry with native code: those of unit 0, unit 1, …"""

LIBRARY = "unit{}.so"
SIGNATURE = "unit{}.json"
CONSTANTS = "unit{}.tensors"
UNITS = "units"  # in the description: how many there are
