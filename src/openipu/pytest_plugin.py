"""For a user's own CI: plans in pytest.

In: planning jobs or plans. Out: fixtures `plan_job`, which plans a job, and `golden_plan`, which compares a plan with a
file beside the test and says in which terms it has changed. `pytest --update-golden-plans` writes the files.

    def test_my_model_fits(plan_job, golden_plan):
        plan = plan_job(make_job(), system="bow-2000")
        assert plan.fits()
        assert plan.peak_tile_bytes < 500_000
        golden_plan(plan)

Nothing of openipu is imported until a test asks for a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from openipu.jobs import PlanningJob
    from openipu.machine import System
    from openipu.plan import Plan

UPDATE_OPTION = "--update-golden-plans"
DIRECTORY = "golden_plans"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("openipu", "plans of IPU programs")
    group.addoption(UPDATE_OPTION, action="store_true", help="write what golden_plan compares with")
    group.addoption(
        "--golden-plan-tolerance",
        type=float,
        metavar="SHARE",
        help="how far a figure may be from its golden value where a test does not say (0.02)",
    )


PlanJob = Callable[..., "Plan"]


@pytest.fixture(scope="session")
def plan_job() -> PlanJob:
    """`plan_job(job, system=…, **run options)`: the plan of a job, of a tuple (model, args) or a dict of its fields."""

    def plan(job: PlanningJob | Any, system: System | str | None = None, **options: Any) -> Plan:
        from openipu.jobs import read_job, run_job

        wanted = read_job(job, "the job of plan_job", "")
        return run_job(wanted.with_options(**options) if options else wanted, system)

    return plan


class GoldenPlans:
    """Compares plans with files beside a test. One test may compare several: each needs a name of its own."""

    def __init__(self, test: Path, name: str, update: bool, tolerance: float | None) -> None:
        self._directory = test.parent / DIRECTORY / test.stem
        self._name, self._update, self._tolerance = name, update, tolerance
        self._used: set[str] = set()

    def __call__(self, plan: Plan, name: str | None = None, *, tolerance: float | None = None) -> None:
        """Fail unless the figures of a plan are what they were. `tolerance` is a share of the golden value."""
        from openipu.explore.golden import check_golden, write_golden

        __tracebackhide__ = True
        label = name or self._name
        if label in self._used:
            pytest.fail(f"golden_plan compared {label!r} before in this test. Give each plan a name.", pytrace=False)
        self._used.add(label)
        path = self._directory / f"{label}.json"
        if self._update:
            write_golden(plan, path)
            return
        problem = check_golden(plan, path, tolerance if tolerance is not None else self._tolerance)
        if problem:
            pytest.fail(f"{problem}\nIf this is meant: pytest {UPDATE_OPTION}", pytrace=False)


@pytest.fixture
def golden_plan(request: pytest.FixtureRequest) -> GoldenPlans:
    """`golden_plan(plan)`: the plan's figures against golden_plans/<test file>/<test>.json."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in request.node.name)
    update = bool(request.config.getoption(UPDATE_OPTION))
    return GoldenPlans(request.node.path, name, update, request.config.getoption("--golden-plan-tolerance"))
