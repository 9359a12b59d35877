"""The model garden: each family of models that IPUs are known by, small enough to train here and as published to plan.

In: a family's name. Out: a trained small version and its quality; the published configuration, modelled beside
published. `families/` has one file a family, `registry` finds them, `commands/` is `openipu garden`.
"""

from openipu_garden.family import Area, Course, Family, FrontEnd, Goal
from openipu_garden.registry import find_family, list_families

__all__ = ["Area", "Course", "Family", "FrontEnd", "Goal", "find_family", "list_families"]
