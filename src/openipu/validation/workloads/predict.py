"""Predicts rows of whole models: builds the model, plans it, reads the metric off the plan.

In: a row of kind "e2e". Out: a `Prediction` in the row's unit with a range, or `Unmodelled` with the reason.
"""

from __future__ import annotations

from typing import Any

from openipu.machine import System
from openipu.models.spec import ModelSpec
from openipu.plan import Plan
from openipu.validation.figures import FigureRow, Outcome, Prediction, Unmodelled, find_system
from openipu.validation.workloads.benchmarks import count_samples_to_train, find_overhead_seconds
from openipu.validation.workloads.programs import Measured, Setup, plan_setup
from openipu.validation.workloads.recognise import recognise_model
from openipu.validation.workloads.served import find_served
from openipu.validation.workloads.setups import choose_inference, choose_training, count_per_pack, follow_served

REQUESTS_IN_FLIGHT = 4  # of a load generator that measures "average latency": rate x latency / batch of its own rows
GIVEN_SPREAD = 0.35  # natural logarithm of the factor either way, nine of ten
CHOSEN_SPREAD = 0.6  # the same where the layout had to be chosen
REQUEST_SECONDS = 100e-6  # a single request: the way to the card and back, besides its bytes (guessed)
EPOCH_SAMPLES = {"sampled graph": 153_431}  # training nodes of the Reddit graph
EVALUATION_BATCH = 1
# A Python framework's own time for one call, where no loop on the device is stated: what two rates of DLRM on four IPUs
# leave beside their plans.
CALL_SECONDS = 1.2e-3


def predict_row(row: FigureRow) -> Outcome:
    """The figure that a row asks for."""
    if "compile time" in row.metric:
        return Unmodelled("the time that the vendor's compiler took on its host is no figure of an IPU")
    if "host pipeline only" in str(row.params.get("mode", "")):
        return Unmodelled("the figure is of the host's data loading alone: no IPU takes part")
    spec = follow_served(row, recognise_model(row))
    system = find_system(row)
    return _predict_training(row, spec, system) if spec.training else _predict_inference(row, spec, system)


def plan_row(row: FigureRow) -> Plan:
    """The plan that a prediction is read off."""
    spec, system = follow_served(row, recognise_model(row)), find_system(row)
    setup, _ = choose_training(row, spec, system) if spec.training else _choose_inference(row, spec, system)
    return plan_setup(spec, setup, system)


def _choose_inference(row: FigureRow, spec: ModelSpec, system: System) -> tuple[Setup, Measured]:
    return choose_inference(row, spec, system, max(1, int(_count_samples(row))))


def _count_samples(row: FigureRow) -> Any:
    return row.params.get("batch", row.params.get("global_batch", EVALUATION_BATCH))


def _predict_inference(row: FigureRow, spec: ModelSpec, system: System) -> Outcome:
    samples = _count_samples(row)
    packs = count_per_pack(row, spec)
    setup, measured = _choose_inference(row, spec, system)
    basis = _describe(spec, setup)
    if row.asks_fit:
        return Prediction.of_fit(measured.fits, basis, probability=measured.fit_probability)
    batch_seconds = measured.call_seconds + _find_call_seconds(row, system)
    if "synthetic" in str(row.params.get("data", "")):
        batch_seconds = measured.compute_seconds
    if "latency" in row.metric:
        requests = _count_in_flight(row) if "flight" in row.metric else 1.0
        seconds = requests * batch_seconds
        if requests == 1:
            seconds += measured.host_bytes / system.host_bytes_per_second + REQUEST_SECONDS
        return _answer(row, row.from_si(seconds), measured, basis)
    if "time per batch" in row.metric:
        return _answer(row, row.from_si(batch_seconds), measured, basis)
    if "throughput" in row.metric:
        return _answer(row, samples * packs / batch_seconds, measured, basis)
    return Unmodelled(f"no rule for the metric {row.metric!r} of inference")


def _find_call_seconds(row: FigureRow, system: System) -> float:
    """Nothing on a card that serves requests, nor where a row names the framework whose loop runs on the device."""
    return 0.0 if "framework" in row.params or system.ipus_per_board == 1 else CALL_SECONDS


def _count_in_flight(row: FigureRow) -> float:
    """Requests of a load generator that measures "average latency"."""
    known = find_served(row)
    return (known.count_in_flight(row) if known is not None else 0.0) or REQUESTS_IN_FLIGHT


def _predict_training(row: FigureRow, spec: ModelSpec, system: System) -> Outcome:
    setup, measured = choose_training(row, spec, system)
    basis = _describe(spec, setup)
    if row.asks_fit:
        return Prediction.of_fit(measured.fits, basis, probability=measured.fit_probability)
    waited = measured.call_seconds / (measured.call_seconds + _find_call_seconds(row, system))
    rate = measured.samples_per_second * count_per_pack(row, spec) * waited
    if "time to train" in row.metric:
        needed = count_samples_to_train(row, spec)
        if needed is None:
            return Unmodelled(f"how many samples {row.workload!r} needs to converge is not known here")
        seconds = needed / rate + find_overhead_seconds(row, spec)
        return _answer(row, row.from_si(seconds), measured, basis, chosen="micro_batch" not in row.params)
    if "epoch time" in row.metric:
        return _answer(row, row.from_si(EPOCH_SAMPLES[spec.kind] / rate), measured, basis, chosen=True)
    if "training rate" in row.metric:
        return _answer(row, waited / measured.call_seconds, measured, basis)
    if "incl. eval" in row.metric:
        needed = count_samples_to_train(row, spec)
        if needed is not None:
            rate = needed / (needed / rate + find_overhead_seconds(row, spec))
    if "throughput" in row.metric:
        return _answer(row, rate, measured, basis, chosen="micro_batch" not in row.params)
    return Unmodelled(f"no rule for the metric {row.metric!r} of training")


def _answer(row: FigureRow, value: float, measured: Measured, basis: str, *, chosen: bool = False) -> Prediction:
    spread = CHOSEN_SPREAD if chosen else GIVEN_SPREAD
    terms = {name: seconds for name, seconds in measured.terms if seconds}
    return Prediction.around(
        value, spread, basis, fits=measured.fits, fit_probability=measured.fit_probability, terms=terms
    )


def _describe(spec: ModelSpec, setup: Setup) -> str:
    parts = [f"plan of {spec.kind} {spec.size}".strip(), f"micro-batch {setup.micro_batch}"]
    if spec.training:
        parts += [f"accumulation {setup.accumulation}", f"{setup.replicas} replicas of {setup.stages} IPUs"]
        parts += [f"recompute {setup.recompute}"] if setup.recompute else []
    parts.append(f"memory proportion {setup.proportions[0]}")
    return ", ".join(parts)
