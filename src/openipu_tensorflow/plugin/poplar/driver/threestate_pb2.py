"""Off, on, or not said."""

THREESTATE_OFF, THREESTATE_ON, THREESTATE_UNDEFINED = range(3)
