"""The profile as JSON for scripts and CI.

In: a `Profile`. Out: a dictionary of plain values with stable keys; `version` rises when a key changes its meaning
or goes. Keys: format, version, modelled, name, openipu_version, created, system, options, program, fit, memory,
pipeline (null without one), advice (null where no lever was planned), timing, shares, insights, slowest_ops (indexes),
ops, guesses, planning, warnings. Units stand in the names. Cycles in `shares` are those of all IPUs of a replica, added
up.
Steps and variables are in `profile.pop`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from openipu.report.insights import find_insights
from openipu.report.pipeline import PipelineSummary
from openipu.report.profile import LineRecord, OpRecord, Profile
from openipu.report.summary import CycleShare, Summary, element_bytes_by_op, share_of_peak, summarise

JSON_FORMAT = "openipu-profile"
JSON_VERSION = 1


def to_json(profile: Profile) -> dict[str, Any]:
    """Everything but the steps and variables, ready for `json.dump`."""
    document = describe_summary(summarise(profile), profile)
    sizes = element_bytes_by_op(profile)
    document["memory"]["peak_bytes_by_tile"] = [memory.peak.tolist() for memory in profile.memory]
    document["ops"] = [
        {
            **_describe_op(op),
            "executions_per_call": profile.executions(op.phase),
            "share_of_peak": share_of_peak(op, sizes.get(op.index), profile.system),
        }
        for op in profile.ops
    ]
    return document


def describe_summary(summary: Summary, profile: Profile) -> dict[str, Any]:
    """The short part: what the first page of the web report shows."""
    fit, timing = summary.fit, summary.timing
    return {
        "format": JSON_FORMAT,
        "version": JSON_VERSION,
        "modelled": True,
        "name": summary.name,
        "openipu_version": summary.openipu_version,
        "created": summary.created,
        "system": _describe_system(profile),
        "options": dict(profile.options),
        "program": {
            "training": summary.training,
            "micro_batch_samples": summary.micro_batch,
            "ipus_per_replica": summary.ipus_per_replica,
            "replicas": summary.replicas,
            "ops": summary.op_count,
            "steps": summary.step_count,
            "variables": summary.variable_count,
        },
        "fit": {
            **{field.name: getattr(fit, field.name) for field in dataclasses.fields(fit) if field.name != "culprits"},
            "bytes_over_worst_tile": fit.bytes_over_worst_tile,
            "probability": fit.probability,
            "culprits": [
                {**dataclasses.asdict(culprit), "line": describe_line(culprit.line)} for culprit in fit.culprits
            ],
            "ipus": [dataclasses.asdict(entry) for entry in summary.ipus],
        },
        "memory": {"categories": [dataclasses.asdict(part) for part in summary.memory]},
        "pipeline": None if summary.pipeline is None else _describe_pipeline(summary.pipeline, timing.clock_hz),
        "timing": {
            **dataclasses.asdict(timing),
            "micro_seconds": timing.micro_cycles / timing.clock_hz,
            "update_seconds": timing.update_cycles / timing.clock_hz,
            "call_seconds": timing.call_cycles / timing.clock_hz,
            "samples_per_second": timing.samples_per_second,
        },
        "shares": {
            "step_kinds": _describe_shares(summary.kinds),
            "phases": _describe_shares(summary.phases),
            "families": _describe_shares(summary.families),
        },
        "advice": None if profile.advice is None else profile.advice.describe(),
        "insights": [dataclasses.asdict(finding) for finding in find_insights(profile)],
        "slowest_ops": [entry.op.index for entry in summary.slowest],
        "guesses": {
            "share_of_call_cycles": summary.guessed_share,
            "ops": {guess.op: guess.count for guess in summary.guesses},
            "machine_figures": list(summary.guessed_figures),
        },
        "planning": {"seconds": summary.planning_seconds, "passes_seconds": dict(profile.passes)},
        "warnings": list(profile.warnings),
    }


def _describe_pipeline(pipeline: PipelineSummary, clock_hz: float) -> dict[str, Any]:
    return {
        "stages": [
            {
                "index": entry.record.index,
                "stage": entry.number,
                "ipu": entry.record.ipu,
                "forward": entry.record.forward,
                "backward": entry.record.backward,
                "cycles": entry.record.cycles,
                "seconds": entry.record.cycles / clock_hz,
                "share": entry.share,
            }
            for entry in pipeline.stages
        ],
        "ipus": [{**dataclasses.asdict(load), "bubble_share": load.bubble_share} for load in pipeline.ipus],
        "micro_batches": pipeline.micro_batches,
        "ticks": {
            "fill": pipeline.fill_ticks,
            "steady": pipeline.steady_ticks,
            "drain": pipeline.drain_ticks,
            "all": pipeline.ticks,
        },
        "steady_cycles": pipeline.steady_cycles,
        "total_cycles": pipeline.total_cycles,
        "total_seconds": pipeline.total_cycles / clock_hz,
        "bubble_share": pipeline.bubble_share,
        "slowest": {
            "ipu": pipeline.slowest.ipu,
            "stages": list(pipeline.slowest.stages),
            "ratio_to_mean": pipeline.slowest_ratio,
            "balanced_saving": pipeline.balanced_saving,
            "finding": pipeline.finding,
        },
    }


def describe_line(line: LineRecord | None) -> dict[str, Any] | None:
    return None if line is None else dataclasses.asdict(line)


def _describe_op(op: OpRecord) -> dict[str, Any]:
    values = {field.name: getattr(op, field.name) for field in dataclasses.fields(op)}
    return {**values, "line": describe_line(op.line), "plan": dict(op.plan)}


def _describe_shares(shares: tuple[CycleShare, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(entry) for entry in shares]


def _describe_system(profile: Profile) -> dict[str, Any]:
    system, target = profile.system, profile.system.target
    figures: dict[str, dict[str, Any]] = {}
    for scope, holder in (("target", target), ("system", system)):
        figures[scope] = {}
        for field in dataclasses.fields(holder):
            if field.name not in ("target", "sources"):
                source = holder.sources.get(field.name)
                figures[scope][field.name] = {
                    "value": getattr(holder, field.name),
                    "provenance": source.provenance.value if source else None,
                    "source": source.reference if source else None,
                }
    return {
        "name": system.name,
        "target_name": target.name,
        "ipus": system.ipus,
        "tiles_per_ipu": target.tiles,
        "usable_tile_bytes": target.usable_tile_bytes,
        "clock_hz": target.clock_hz,
        "peak_flops_half": target.peak_flops(2),
        "peak_flops_float": target.peak_flops(4),
        "figures": figures,
    }
