"""Records what Paddle's own executor computes for each case of `paddle_cases.py`: the main environment has no Paddle.

    FLAGS_enable_pir_api=0 .venv-paddle/bin/python tests/translate/record_paddle.py

Out: `paddle_values.npz` beside it: of each case the program as Paddle serialises it, inputs and results by name;
`paddle_new_form.npz`: the same programs in Paddle's new form; and a small saved model in `tests/data/paddle`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ["FLAGS_enable_pir_api"] = "0"  # noqa: SIM112 (Paddle's own spelling)
import numpy as np

import paddle
from paddle import static

sys.path.insert(0, str(Path(__file__).parent))
from paddle_cases import CASES, Case

MODEL = Path(__file__).parents[1] / "data" / "paddle" / "small"


# what Paddle's own conversion to the new form refuses, or writes down with another meaning: it drops the attribute
LOST = {"flatten2": "", "lookup_table": "", "elementwise_pow": "axis", "matmul": "alpha", "reduce_sum": "reduce_all"}


def record_new_form(main: Any, fetches: list[str]) -> dict[str, Any]:
    """A program in the new form, and the numbers of what is fetched."""
    converted, values = paddle.pir.translate_to_pir_with_param_map(main.desc)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.json"
        paddle.base.core.serialize_pir_program(converted, str(path))
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    results = [value for op in converted.global_block().ops for value in op.results()]
    numbers = {value.id: number for number, value in enumerate(results, start=1) if value.initialized()}
    return {"new": content, "fetched": np.array([numbers[values[name][0].id] for name in fetches])}


def is_kept(case: Case) -> bool:
    """Does the new form say the same?"""
    return case.op not in LOST or (bool(LOST[case.op]) and not case.attributes.get(LOST[case.op]))


def record(case: Case) -> dict[str, Any]:
    main = static.Program()
    feeds: dict[str, np.ndarray] = {}
    with static.program_guard(main, static.Program()):
        block = main.global_block()
        inputs, outputs = {}, {}
        for slot, given in case.inputs.items():
            arrays = given if isinstance(given, list) else [given]
            names = [f"{slot}_{place}" for place in range(len(arrays))]
            inputs[slot] = [static.data(n, list(a.shape), str(a.dtype)) for n, a in zip(names, arrays, strict=True)]
            feeds.update(zip(names, arrays, strict=True))
        for slot, count in (*case.outputs.items(), *((slot, 1) for slot in case.hidden)):
            outputs[slot] = [block.create_var(name=f"out_{slot}_{place}", dtype="float32") for place in range(count)]
        outputs |= {slot: inputs[source] for slot, source in case.written.items()}
        block.append_op(type=case.op, inputs=inputs, outputs=outputs, attrs=case.attributes)
    fetches = [variable.name for slot in (*case.outputs, *case.written) for variable in outputs[slot]]
    results = static.Executor(paddle.CPUPlace()).run(main, feed=feeds, fetch_list=fetches)
    content = np.frombuffer(main.desc.serialize_to_string(), dtype=np.uint8)
    return {
        "program": content,
        **(record_new_form(main, fetches) if is_kept(case) else {}),
        **{f"in/{k}": v for k, v in feeds.items()},
        **{f"out/{k}": v for k, v in zip(fetches, results, strict=True)},
    }


def save_model() -> None:
    """A small model as files, for the reader and for the fuzzer."""
    main, startup = static.Program(), static.Program()
    paddle.seed(1)
    with paddle.utils.unique_name.guard(), static.program_guard(main, startup):
        image = static.data("image", [2, 1, 8, 8], "float32")
        hidden = static.nn.batch_norm(static.nn.conv2d(image, 2, 3, act="relu"), is_test=True)
        hidden = paddle.nn.functional.max_pool2d(hidden, 2)
        result = static.nn.fc(hidden, 3, activation="softmax")
        executor = static.Executor(paddle.CPUPlace())
        executor.run(startup)
        static.save_inference_model(str(MODEL), [image], [result], executor, program=main)


def main() -> None:
    paddle.enable_static()
    paddle.pir.translate_to_pir(static.Program().desc)  # makes the new form's ops known
    found: dict[str, Any] = {}
    for number, case in enumerate(CASES):
        try:
            entries = record(case)
        except Exception as error:
            raise SystemExit(f"{number} {case.op}: {error}") from error
        found |= {f"{number:03d} {case.op}/{name}": value for name, value in entries.items()}
    save_model()
    new = {name: value for name, value in found.items() if name.endswith(("/new", "/fetched"))}
    old = {name: value for name, value in found.items() if name not in new}
    np.savez_compressed(Path(__file__).parent / "paddle_values.npz", **old)
    np.savez_compressed(Path(__file__).parent / "paddle_new_form.npz", **new)
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
