"""openipu: run, test, profile and plan IPU programs on any machine. Unofficial; needs no IPU and no SDK."""

__version__ = "0.1.0"
