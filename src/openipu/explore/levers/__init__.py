"""Does not fit: what each lever would save and cost, and the one line that makes it fit."""

from openipu.explore.levers.advise import MOST_PLANS, advise, advise_job
from openipu.explore.levers.records import record_advice
from openipu.explore.levers.replan import Variant
from openipu.explore.levers.texts import describe_advice, describe_untried
from openipu.explore.levers.types import Advice, FrontEnd, LeverKind, LeverResult, Limit, Setting
from openipu.explore.levers.words import word_settings

__all__ = [
    "MOST_PLANS",
    "Advice",
    "FrontEnd",
    "LeverKind",
    "LeverResult",
    "Limit",
    "Setting",
    "Variant",
    "advise",
    "advise_job",
    "describe_advice",
    "describe_untried",
    "record_advice",
    "word_settings",
]
