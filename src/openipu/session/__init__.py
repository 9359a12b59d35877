"""The one door for front ends: compile, plan, keep what was compiled."""

from openipu.session.compiling import (
    DETERMINISTIC_VARIABLE,
    TIER_VARIABLE,
    Advised,
    Compiled,
    FrontEnd,
    choose_determinism,
    choose_system,
    choose_tier,
    compile_model,
    compile_program,
    describe_misfit,
    plan_captured,
    plan_model,
)

__all__ = [
    "DETERMINISTIC_VARIABLE",
    "TIER_VARIABLE",
    "Advised",
    "Compiled",
    "FrontEnd",
    "choose_determinism",
    "choose_system",
    "choose_tier",
    "compile_model",
    "compile_program",
    "describe_misfit",
    "plan_captured",
    "plan_model",
]
