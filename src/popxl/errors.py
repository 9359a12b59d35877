"""Errors of popxl's own."""


class UndefinedValue(Exception):
    """What was asked for is not known, such as the IPU of a tensor that no op has touched."""
