"""What each option of `IPUConfig` does here, for `openipu run --check`: read from the table of effects.

In: an option as scripts name it, such as "config.IPUConfig.allow_recompute". Out: that it is an option, how openipu
stands to it ("has it", "without effect", "lacks it"), and a remark.
"""

from __future__ import annotations

from collections.abc import Mapping

from openipu_tensorflow.ipu.configuration.effects import CONFIG_EFFECTS
from openipu_tensorflow.ipu.configuration.tree import IPUConfig

HAS, NO_EFFECT, LACKS = "has it", "without effect", "lacks it"
OWNERS = ("config.IPUConfig", "utils.IPUConfig")  # whose members are options

RECORDED: Mapping[str, type] = {}  # options are attributes: the source shows which are set
RESULTS = {name: name for name in OWNERS}  # what is called: what it returns


def judge_option(name: str) -> tuple[bool, str, str] | None:
    """(is an option, state, remark), or None for a group of options and for methods."""
    path = next(name.removeprefix(f"{owner}.") for owner in OWNERS if name.startswith(f"{owner}."))
    effect = CONFIG_EFFECTS.get(path)
    if effect is not None:
        kind, _, remark = effect.partition(": ")
        return True, HAS if kind == "acts" else NO_EFFECT, remark
    place: object = IPUConfig()
    for part in path.split("."):
        try:
            place = getattr(place, part)
        except (AttributeError, ValueError):
            return True, LACKS, "not an option of IPUConfig"
    return None
