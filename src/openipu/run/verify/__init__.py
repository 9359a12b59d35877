"""Verification: the first calls of a program run in the reference engine, too, and results are compared."""

from openipu.run.verify.differences import Difference
from openipu.run.verify.reproducer import Reproducer, read_reproducer
from openipu.run.verify.trial import Trial
from openipu.run.verify.verification import Verification, VerificationWarning, verify_calls

__all__ = [
    "Difference",
    "Reproducer",
    "Trial",
    "Verification",
    "VerificationWarning",
    "read_reproducer",
    "verify_calls",
]
