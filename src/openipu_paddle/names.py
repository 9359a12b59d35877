"""What the names that Paddle's IPU wheel adds do here: functions, environment variables, and why one may be missing.

In: nothing. Out: tables, which docs/generate_paddle.py holds against the code and against the original's names.
"""

from __future__ import annotations

from collections.abc import Mapping

PADDLES_OWN = frozenset(  # work once IPUs are switched on, and are not replaced
    {"paddle.static.set_ipu_shard", "paddle.incubate.identity_loss", "paddle.utils.run_check"}
)
FUNCTIONS: Mapping[str, str] = {
    "paddle.is_compiled_with_ipu": "acts: true once IPUs are switched on",
    "paddle.device.is_compiled_with_ipu": "acts: the same",
    "paddle.device.IPUPlace": "acts: the same as `paddle.IPUPlace`",
    "paddle.set_device": 'acts: `"ipu"` and `"ipu:1"` beside Paddle\'s own',
    "paddle.device.set_device": "acts: the same",
    "paddle.base.core.get_ipu_device_count": "acts: the IPUs of the [virtual pod](pod.md)",
    "paddle.static.ipu_shard_guard": "acts: ops run on this IPU and in this stage, in both forms",
    "paddle.static.set_ipu_shard": "acts: the same for a layer or a function",
    "paddle.incubate.identity_loss": "acts: names the loss of a program; reductions sum, mean, none",
    "paddle.static.Executor.run": "acts: runs what `compile` returned; anything else runs on Paddle's own executor",
    "paddle.inference.create_predictor": "acts: on IPUs where the configuration enables them, else Paddle's own",
    "paddle.optimizer.lr.LRScheduler.step": "acts: the new rate holds for the next run, static or dynamic",
    "paddle.utils.cpp_extension.load": "acts: builds what needs no PopART; [custom ops](paddle.md#custom-ops)",
    "paddle.utils.run_check": "Paddle's own",
}
VARIABLES: Mapping[str, str] = {
    "IPU_COMPILE_ONLY": "acts: programs are planned and compiled, both are kept, and runs answer with nothing",
    "IPU_CACHE_PATH": "acts: where plans are kept and looked for; native code is in `OPENIPU_CACHE_DIR`",
    "IPU_ONNX_DUMP_PATH": "acts: each program is written there as ONNX when it is compiled",
    "POPLAR_IPUMODEL": "no effect: every IPU is a model here; choose a system with `--system`",
    "OPENIPU_PADDLE": "of openipu: 1 switches IPUs on wherever Paddle is imported",
    "FLAGS_enable_pir_api": "Paddle's own: [which form programs have](paddle.md#two-forms-of-programs)",
}
ABSENT_OPS: Mapping[str, str] = {  # ops of the original that have no rule here, each with its reason
    "checkpointoutput": "the original makes and reads it itself",
    "custom_op": "custom ops are translated under [names of their own](paddle.md#custom-ops)",
    "popart_optimizer": "the original makes and reads it itself",
}
