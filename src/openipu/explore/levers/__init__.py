"""Does not fit: what each lever would save and cost, and the one line that makes it fit."""

from openipu.explore.levers.advise import advise, advise_job
from openipu.explore.levers.texts import describe_advice
from openipu.explore.levers.types import Advice, FrontEnd, LeverKind, LeverResult, Setting
from openipu.explore.levers.words import word_settings

__all__ = [
    "Advice",
    "FrontEnd",
    "LeverKind",
    "LeverResult",
    "Setting",
    "advise",
    "advise_job",
    "describe_advice",
    "word_settings",
]
