"""Kernels that trust their callers: what would make them leave their memory is refused before it runs."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch

from openipu.admission import read_program
from openipu.capture import capture_program
from openipu.errors import ProgramFileError
from openipu.graph.serial import dump_program

aten = torch.ops.aten
PICTURE, SMALL = torch.ones(1, 2, 4, 4), torch.ones(1, 2, 2, 2)
PLACES = torch.zeros(1, 2, 2, 2, dtype=torch.int64)
ROWS, WHICH = torch.ones(4, 8), torch.tensor([0, 1, 2, 3])
QUERY, LONGER = torch.ones(2, 3, 4, 8), torch.ones(2, 3, 6, 8)
SEQUENCE, STATE, WEIGHT = torch.ones(5, 2, 3), torch.ones(2, 4), torch.ones(16, 4)


def attend_backward(query, key):
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu(query, key, key)
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        query, query, key[:, :, :2], key, out, sums, 0.0, False
    )


def pool_another(picture, gradient):
    _, places = aten.max_pool2d_with_indices(picture, [2, 2])
    return aten.max_pool2d_with_indices_backward(gradient, picture + 1, [2, 2], [], [0, 0], [1, 1], False, places)


def look_up_and_forget(rows, which):
    aten.embedding(rows, which)  # its check would be left out with it
    return aten.embedding_dense_backward(rows, which, 4, -1, True)


CASES = {
    "pool": (
        lambda g, p, i: aten.max_pool2d_with_indices_backward(g, p, [2, 2], [2, 2], [0, 0], [1, 1], False, i),
        (SMALL, PICTURE, PLACES),
        "indices",
    ),
    "another pool": (pool_another, (PICTURE, SMALL), "self"),
    "gradient of more channels": (
        lambda p, g: aten.adaptive_max_pool2d_backward(g, p, aten.adaptive_max_pool2d(p, [2, 2])[1]),
        (PICTURE, torch.ones(1, 9, 2, 2)),
        "grad_output",
    ),
    "adaptive pool": (lambda g, p, i: aten.adaptive_max_pool2d_backward(g, p, i), (SMALL, PICTURE, PLACES), "indices"),
    "mean pool of nothing": (
        lambda g, p: aten._adaptive_avg_pool2d_backward(g, p[..., :0]),
        (SMALL, PICTURE),
        "(self|do not fit)",
    ),
    "embedding": (lambda g, i: aten.embedding_dense_backward(g, i, 4, -1, True), (ROWS, WHICH), "indices"),
    "forgotten embedding": (look_up_and_forget, (ROWS, WHICH), "indices"),
    "embedding of other rows": (
        lambda g, i: (aten.embedding(g, i), aten.embedding_dense_backward(g, i, 2, -1, True)),
        (ROWS, WHICH),
        "indices",
    ),
    "bag": (
        lambda g, i, o: aten._embedding_bag_backward(g, i, o, i, o, o, 10, False, 0, False, None),
        (ROWS, WHICH, WHICH),
        "offset2bag",
    ),
    "loss": (
        lambda g, x, t, w: aten.nll_loss_backward(g, x, t, None, 1, -100, w),
        (torch.tensor(1.0), ROWS, WHICH, torch.tensor(4.0)),
        "total_weight",
    ),
    "attention": (
        lambda q, k: aten._scaled_dot_product_flash_attention_for_cpu(q, k[:, :2], k),
        (QUERY, LONGER),
        "(key|value)",
    ),
    "gradient of attention": (attend_backward, (QUERY, LONGER), "(key|value)"),
    "layer norm": (
        lambda x, m: aten.native_layer_norm_backward(x, x, [8], m, m, None, None, [True, False, False]),
        (ROWS, torch.ones(1, 1)),
        "mean",
    ),
    "resampling": (lambda x: aten.upsample_nearest2d(x, [8, 8], 1e-300, 2.0), (PICTURE,), "scales_h"),
    "recurrent layer": (
        lambda x, h, w: torch.ops.openipu.lstm_layer(x, h, h, w, w, None, False, False),
        (SEQUENCE, STATE, WEIGHT),
        "weight_input",
    ),
    "convolution": (
        lambda g, x, w: aten.convolution_backward(
            g, x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, False]
        ),
        (torch.ones(1, 3, 9, 9), PICTURE, torch.ones(3, 2, 2, 2)),
        "grad_output",
    ),
    "division": (lambda i, j: aten.div(i, j, rounding_mode="trunc"), (WHICH, WHICH), "other"),
    "remainder": (lambda i, j: aten.remainder(i, j), (WHICH, WHICH), "other"),
}


def write(function, inputs):
    return dump_program(capture_program(function, inputs, {}, training=False, optimizer=None, name="model"))


@pytest.mark.parametrize("name", CASES)
def test_a_call_that_no_forward_stands_behind_is_refused(name):
    function, inputs, argument = CASES[name]
    serial = write(function, inputs)
    with pytest.raises(ProgramFileError, match=rf"node \w+ \((aten|openipu)::\w+.*{argument}"):
        read_program(serial.document, serial.tensors)


def test_a_strided_write_that_leaves_its_memory_is_refused():
    serial = write(lambda x, y: aten.as_strided_scatter(x, y, [4, 4], [8, 1]), (ROWS, ROWS[:, :4]))
    document = json.loads(serial.document)
    changed = _replace(document["micro"]["nodes"], [8, 1], [1 << 20, 1])
    assert changed == 1  # capture itself would refuse it, so it is written into the file
    with pytest.raises(ProgramFileError, match=r"node \w+ \(aten::as_strided_scatter.*(self|do not fit)"):
        read_program(json.dumps(document).encode(), serial.tensors)


def _replace(value, before, after):
    """Put one list in place of another, however deep; says how often."""
    if value == before and isinstance(value, list):
        value[:] = after
        return 1
    parts = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return sum(_replace(part, before, after) for part in parts)


WILD = {
    "embedding": lambda x, i: aten.embedding(x, i),
    "index_select": lambda x, i: aten.index_select(x, 0, i),
    "index": lambda x, i: aten.index(x, [i]),
    "index_put": lambda x, i: aten.index_put(x, [i], x[:4], True),
    "index_add": lambda x, i: aten.index_add(x, 0, i, x[:4]),
    "index_copy": lambda x, i: aten.index_copy(x, 0, i, x[:4]),
    "index_fill": lambda x, i: aten.index_fill(x, 0, i, 1.0),
    "gather": lambda x, i: aten.gather(x, 0, i[:, None].expand(4, 8)),
    "take": lambda x, i: aten.take(x, i),
    "scatter": lambda x, i: aten.scatter(x, 0, i[:, None].expand(4, 8), x[:4]),
    "scatter_add": lambda x, i: aten.scatter_add(x, 0, i[:, None].expand(4, 8), x[:4]),
    "scatter_reduce": lambda x, i: aten.scatter_reduce(x, 0, i[:, None].expand(4, 8), x[:4], "amax"),
    "nll": lambda x, i: aten.nll_loss_forward(x[:4], i, None, 1, -100),
    "bag": lambda x, i: aten._embedding_bag(x, i, i * 0),
    "trained rows": lambda x, i: (aten.embedding(x, i), aten.embedding_dense_backward(x[:4], i, 9, -1, True)),
}
RUN = """
    import sys, torch
    from openipu.admission import read_program, run_once
    from openipu.errors import ProgramFileError
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        document, tensors = (open(f"{sys.argv[1]}/{name}.{part}", "rb").read() for part in ("json", "bin"))
        program = read_program(document, tensors)
        try:
            run_once(program)
            print("ran", flush=True)
        except ProgramFileError as error:
            print("failed", flush=True)
"""


def test_wild_indices_in_an_accepted_program_end_in_an_error(tmp_path):
    rows, which = torch.ones(9, 8), torch.tensor([0, 1, 2, 3])
    cases = {f"{name} {wild}": (name, wild) for wild in (9, -10, 2**40, -(2**63)) for name in WILD}
    for case, (name, wild) in cases.items():
        serial = write(lambda x, i, name=name, wild=wild: WILD[name](x, i * 0 + wild), (rows, which))
        (tmp_path / f"{case}.json").write_bytes(serial.document)
        (tmp_path / f"{case}.bin").write_bytes(serial.tensors)
    command = [sys.executable, "-c", textwrap.dedent(RUN), str(tmp_path), *cases]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    outcomes = dict(zip(cases, done.stdout.split(), strict=False))
    assert done.returncode == 0, (json.dumps(outcomes), done.stderr[-1000:])
    for case, (name, wild) in cases.items():
        within = name == "take" or (name == "scatter_reduce" and wild == 9)  # 9 is an element of 9 x 8
        assert outcomes[case] == "failed" or within, case
