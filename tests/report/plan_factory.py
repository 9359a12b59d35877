"""Synthetic plans that are whole: memory and times follow from the steps and variables, as in a real plan."""

from __future__ import annotations

import numpy as np

from openipu.graph import Phase, RunOptions, SourceLine
from openipu.machine import Provenance, System, resolve_system
from openipu.ops.cost import Family, StepKind
from openipu.plan.pipeline import measure_micro_batch
from openipu.plan.types import (
    Culprit,
    Fit,
    IpuMemory,
    MemoryCategory,
    Pipeline,
    Plan,
    PlannedOp,
    PlannedStep,
    TileMapping,
    Timing,
    Variable,
    VariableKind,
)

MODEL_FILE = "/home/ada/project/model.py"


class PlanBuilder:
    """Collects ops in order of execution, then derives memory, fit and timing from them."""

    def __init__(self, name: str, options: RunOptions, micro_batch: int, system: System | None = None) -> None:
        self.name, self.options, self.micro_batch = name, options, micro_batch
        self.system = system or resolve_system("bow-2000")
        self.tiles = self.system.target.tiles
        self.ops: list[PlannedOp] = []
        self.steps: list[PlannedStep] = []
        self.variables: list[Variable] = []
        self.ipu = self.stage = 0

    def go_to(self, ipu: int, stage: int) -> None:
        """What is added from now on is on this IPU and of this stage."""
        self.ipu, self.stage = ipu, stage

    def add_host_step(self, name: str, moved_bytes: int, phase: Phase = Phase.FORWARD) -> None:
        rate = self.system.host_bytes_per_second / self.system.target.clock_hz
        self._add_step(StepKind.HOST, name, moved_bytes / rate, 32, moved_bytes, 0, None, phase)

    def add_copy(self, moved_bytes: int, phase: Phase) -> None:
        """A tensor from another IPU."""
        rate = self.system.ipu_link_bytes_per_second / self.system.target.clock_hz
        self._add_step(
            StepKind.LINK, "copy to another IPU", moved_bytes / rate, self.tiles, moved_bytes, 0, None, phase
        )

    def add_op(
        self,
        op: str,
        family: Family,
        phase: Phase,
        module: str,
        *,
        cycles: float,
        flops: int = 0,
        moved_bytes: int = 0,
        rounds: int = 1,
        line: int = 0,
        provenance: Provenance = Provenance.PUBLISHED,
    ) -> int:
        """One op of `rounds` times exchange, sync and compute."""
        index, first = len(self.ops), len(self.steps)
        for turn in range(rounds):
            if moved_bytes:
                target = self.system.target
                exchange = moved_bytes / rounds / self.tiles / target.exchange_bytes_per_cycle
                self._add_step(
                    StepKind.EXCHANGE, f"gather {turn}", exchange, self.tiles, moved_bytes // rounds, 0, index, phase
                )
                self._add_step(StepKind.SYNC, "sync", 126.0, self.tiles, 0, 0, index, phase)
            self._add_step(
                StepKind.COMPUTE, family.value, cycles / rounds, self.tiles - 8, 0, flops // rounds, index, phase
            )
        own = self.steps[first:]
        self.ops.append(
            PlannedOp(
                index=index,
                name=f"{op.split('.')[1]}_{index}",
                op=op,
                family=family,
                phase=phase,
                module=module,
                line=SourceLine(MODEL_FILE, line, "forward") if line else None,
                cycles=sum(step.cycles for step in own),
                flops=sum(step.flops for step in own),
                moved_bytes=sum(step.moved_bytes for step in own),
                scratch_bytes_per_tile=0,
                first_step=first,
                step_count=len(own),
                provenance=provenance,
                basis="synthetic",
                ipu=self.ipu,
                stage=self.stage,
                plan={"split": (4, 8, 46), "partials": "float16"} if flops else {},
            )
        )
        return index

    def add_variable(
        self,
        name: str,
        kind: VariableKind,
        shape: tuple[int, ...],
        *,
        dtype: str = "float16",
        first_tile: int = 0,
        tiles: int | None = None,
        life: tuple[int, int] | None = None,
        op: int | None = None,
    ) -> None:
        """Always live without a `life`; else live from the first to the last step of it."""
        size = int(np.prod(shape)) * (2 if dtype == "float16" else 4)
        mapping = TileMapping(first_tile % self.tiles, tiles or self.tiles, size)
        first, last = life or (0, -1)
        index = len(self.variables)
        self.variables.append(
            Variable(index, name, kind, shape, dtype, mapping, life is None, first, last, op, self.ipu)
        )

    def build(self, guesses: dict[str, int] | None = None) -> Plan:
        memory = tuple(self._build_memory(ipu) for ipu in range(1 + max(step.ipu for step in self.steps)))
        options, (timing, pipeline) = self.options, self._build_timing()
        return Plan(
            name=self.name,
            system=self.system,
            options=options,
            micro_batch=self.micro_batch,
            ops=tuple(self.ops),
            steps=tuple(self.steps),
            variables=tuple(self.variables),
            memory=memory,
            fit=self._build_fit(memory),
            timing=timing,
            guessed_ops=guesses or {},
            planning_seconds=0.75,
            passes={"lower": 0.25, "place": 0.5},
            pipeline=pipeline,
        )

    def _add_step(
        self,
        kind: StepKind,
        name: str,
        cycles: float,
        tiles: int,
        moved_bytes: int,
        flops: int,
        op: int | None,
        phase: Phase,
    ) -> None:
        index = len(self.steps)
        place = {"ipu": self.ipu, "stage": self.stage}
        self.steps.append(PlannedStep(index, kind, name, cycles, tiles, moved_bytes, flops, op, phase, **place))

    def _build_memory(self, ipu: int) -> IpuMemory:
        count = len(self.steps)
        always = np.zeros(self.tiles, dtype=np.int64)
        born: dict[int, list[np.ndarray]] = {}
        for variable in (variable for variable in self.variables if variable.ipu == ipu):
            held = variable.mapping.bytes_by_tile(self.tiles)
            if variable.always_live:
                always += held
            else:
                born.setdefault(variable.first_step, []).append(held)
                born.setdefault(min(variable.last_step + 1, count), []).append(-held)
        live = np.zeros(self.tiles, dtype=np.int64)
        peak, where = live.copy(), live.copy()
        by_step, fullest = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for step in range(count):
            for change in born.get(step, ()):
                live += change
            higher = live > peak
            peak[higher], where[higher] = live[higher], step
            by_step[step], fullest[step] = live.sum(), live.max()
        ramp = np.arange(self.tiles, dtype=np.int64) % 16
        categories = {
            MemoryCategory.VERTEX_CODE: 9000 + ramp * 64,
            MemoryCategory.VERTEX_STATE: 6000 + ramp * 32,
            MemoryCategory.EXCHANGE_CODE: 3000 + len(self.ops) * 6 + ramp * 16,
            MemoryCategory.HOST_EXCHANGE_CODE: np.where(np.arange(self.tiles) < 32, 4096, 0),
            MemoryCategory.CONTROL_CODE: np.full(self.tiles, 2000 + len(self.steps) // 4),
        }
        return IpuMemory(ipu, always, categories, peak, where, by_step, fullest)

    def _build_fit(self, memories: tuple[IpuMemory, ...]) -> Fit:
        memory = max(memories, key=lambda entry: int(entry.peak.max()))
        limit, peak = self.system.target.usable_tile_bytes, memory.peak
        tile = int(peak.argmax())
        step = int(memory.peak_step_by_tile[tile])
        over = np.concatenate([np.maximum(entry.peak - limit, 0) for entry in memories])
        own = [variable for variable in self.variables if variable.ipu == memory.ipu]
        here = [v for v in own if v.always_live or v.first_step <= step <= v.last_step]
        sized = [(int(v.mapping.bytes_by_tile(self.tiles)[tile]), v) for v in here]
        culprits = []
        for size, variable in sorted(sized, key=lambda pair: -pair[0])[:8]:
            op = self.ops[variable.op] if variable.op is not None else None
            module, line = (op.module, op.line) if op else ("", None)
            culprits.append(Culprit(variable.name, variable.kind.value, size, variable.bytes, module, line))
        return Fit(
            fits=not over.any(),
            limit_bytes=limit,
            peak_bytes=int(peak[tile]),
            peak_tile=tile,
            peak_ipu=memory.ipu,
            peak_step=step,
            tiles_over=int((over > 0).sum()),
            bytes_over=int(over.sum()),
            needed_bytes=sum(int(entry.peak.sum()) for entry in memories),
            culprits=() if not over.any() else tuple(culprits),
        )

    def _build_timing(self) -> tuple[Timing, Pipeline | None]:
        options = self.options
        busy = measure_micro_batch(self.steps, options, max(step.stage for step in self.steps))
        micro, update, pipeline = busy.cycles, busy.update_cycles, busy.pipeline
        work = options.gradient_accumulation * micro if pipeline is None else pipeline.total_cycles
        guessed = sum(op.cycles for op in self.ops if op.provenance is Provenance.GUESSED)
        timing = Timing(
            micro_cycles=micro,
            update_cycles=update,
            host_cycles=sum(step.cycles for step in self.steps if step.kind is StepKind.HOST),
            call_cycles=options.device_iterations * (work + update),
            clock_hz=self.system.target.clock_hz,
            samples_per_call=self.micro_batch * options.micro_batches,
            guessed_cycles=guessed * options.device_iterations * options.gradient_accumulation,
        )
        return timing, pipeline


def make_cnn_plan(name: str = "resnet") -> Plan:
    """Inference of a small convolution net, 16 images: about a hundred steps."""
    build = PlanBuilder(name, RunOptions(device_iterations=4), micro_batch=16)
    build.add_host_step("load images", 16 * 3 * 224 * 224 * 2)
    channels, side, previous = 64, 112, 0
    for block in range(16):
        module = f"layer{block // 4 + 1}.{block % 4}"
        shape = (16, channels, side, side)
        flops = 2 * 16 * channels * side * side * 9 * channels // 4
        conv = build.add_op(
            "aten.convolution.default",
            Family.CONVOLUTION,
            Phase.FORWARD,
            f"{module}.conv",
            cycles=flops / (1472 * 90),
            flops=flops,
            moved_bytes=channels * side * side * 40,
            rounds=2,
            line=20 + block,
        )
        here = len(build.steps) - 1
        build.add_variable(f"{module}.conv.out", VariableKind.ACTIVATION, shape, life=(previous, here + 3), op=conv)
        build.add_op(
            "aten.relu.default", Family.ELEMENTWISE, Phase.FORWARD, module, cycles=channels * side * 4, line=40 + block
        )
        weights = (channels, channels, 3, 3)
        build.add_variable(f"{module}.conv.weight", VariableKind.PARAMETER, weights, first_tile=block * 90)
        previous = here
        if block % 4 == 3:
            channels, side = channels * 2, side // 2
    build.add_op(
        "aten.mysterious.default",
        Family.UNKNOWN,
        Phase.FORWARD,
        "head",
        cycles=4000,
        provenance=Provenance.GUESSED,
        line=70,
    )
    build.add_host_step("return logits", 16 * 1000 * 2)
    return build.build(guesses={"aten.mysterious.default": 1})


def make_bert_plan(name: str = "bert-base", micro_batch: int = 2, sequence: int = 128, rounds: int = 8) -> Plan:
    """Training of a BERT-base-like encoder with Adam: about 12,000 steps."""
    options = RunOptions(training=True, gradient_accumulation=16, device_iterations=2, replicas=4)
    build = PlanBuilder(name, options, micro_batch)
    tokens, width = micro_batch * sequence, 768
    build.add_host_step("load tokens", tokens * 4)
    kept: list[tuple[str, int, tuple[int, ...], int]] = []
    parts = (
        ("attention.self.query", 1, Family.MATMUL),
        ("attention.self.key", 1, Family.MATMUL),
        ("attention.self.value", 1, Family.MATMUL),
        ("attention.self", 1, Family.SOFTMAX),
        ("attention.output.dense", 1, Family.MATMUL),
        ("attention.output.LayerNorm", 1, Family.NORM),
        ("intermediate.dense", 4, Family.MATMUL),
        ("intermediate.act", 4, Family.ELEMENTWISE),
        ("output.dense", 4, Family.MATMUL),
        ("output.LayerNorm", 1, Family.NORM),
    )
    names = {Family.MATMUL: "addmm", Family.SOFTMAX: "_softmax", Family.NORM: "native_layer_norm"}
    for layer in range(12):
        for place, (part, wide, family) in enumerate(parts):
            module = f"bert.encoder.layer.{layer}.{part}"
            is_matmul = family is Family.MATMUL
            flops = 2 * tokens * width * width * wide if is_matmul else tokens * width * wide
            op = build.add_op(
                f"aten.{names.get(family, 'gelu')}.default",
                family,
                Phase.FORWARD,
                module,
                cycles=flops / (1472 * (64 if is_matmul else 4)),
                flops=flops if is_matmul else 0,
                moved_bytes=tokens * width * 2 * wide * (4 if is_matmul else 1),
                rounds=rounds,
                line=100 + place * 7,
            )
            kept.append((module, op, (tokens, width * wide), len(build.steps) - 1))
            if is_matmul:
                shape, offset = (width, width * wide), (layer * 10 + place) * 131
                build.add_variable(f"{module}.weight", VariableKind.PARAMETER, shape, first_tile=offset)
                for state in ("exp_avg", "exp_avg_sq"):
                    build.add_variable(f"{state}:{module}.weight", VariableKind.STATE, shape, first_tile=offset)
                build.add_variable(f"grad:{module}.weight", VariableKind.ACCUMULATOR, shape, first_tile=offset)
    for module, forward, shape, start in reversed(kept):
        op = build.ops[forward]
        build.add_op(
            "aten.mm.default" if op.family is Family.MATMUL else "aten.mul.Tensor",
            op.family,
            Phase.BACKWARD,
            module,
            cycles=2 * op.cycles,
            flops=2 * op.flops,
            moved_bytes=2 * op.moved_bytes,
            rounds=2 * rounds,
            line=op.line.line if op.line else 0,
        )
        end = len(build.steps) - 1
        build.add_variable(f"{module}.saved", VariableKind.ACTIVATION, shape, life=(start, end), op=forward)
        span = (end - 12, end + 6)
        build.add_variable(f"{module}.grad", VariableKind.GRADIENT, shape, life=span, op=len(build.ops) - 1, tiles=1200)
    for module, forward, _, _ in kept:
        build.add_op(
            "aten.addcdiv.default",
            Family.OPTIMIZER,
            Phase.UPDATE,
            module,
            cycles=900 + forward % 7 * 20,
            moved_bytes=50_000,
            rounds=rounds,
            line=400,
        )
    build.add_host_step("return loss", 4, Phase.UPDATE)
    return build.build()


def make_oversized_plan() -> Plan:
    """The same encoder with far too many tokens: does not fit."""
    return make_bert_plan("bert-too-big", micro_batch=16, sequence=384, rounds=1)
