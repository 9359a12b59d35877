"""The one door for front ends: compile, plan, keep what was compiled."""

from openipu.session.compiling import (
    DETERMINISTIC_VARIABLE,
    TIER_VARIABLE,
    Compiled,
    choose_determinism,
    choose_system,
    choose_tier,
    compile_model,
    describe_misfit,
    plan_model,
)

__all__ = [
    "DETERMINISTIC_VARIABLE",
    "TIER_VARIABLE",
    "Compiled",
    "choose_determinism",
    "choose_system",
    "choose_tier",
    "compile_model",
    "describe_misfit",
    "plan_model",
]
