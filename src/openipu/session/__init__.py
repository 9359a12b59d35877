"""The one door for front ends: compile, plan, keep what was compiled."""

from openipu.session.compiling import (
    DETERMINISTIC_VARIABLE,
    ENGINE_VARIABLE,
    FORMER_VARIABLE,
    Advised,
    Compiled,
    FrontEnd,
    choose_determinism,
    choose_engine,
    choose_system,
    compile_model,
    compile_program,
    describe_misfit,
    plan_captured,
    plan_model,
)

__all__ = [
    "DETERMINISTIC_VARIABLE",
    "ENGINE_VARIABLE",
    "FORMER_VARIABLE",
    "Advised",
    "Compiled",
    "FrontEnd",
    "choose_determinism",
    "choose_engine",
    "choose_system",
    "compile_model",
    "compile_program",
    "describe_misfit",
    "plan_captured",
    "plan_model",
]
