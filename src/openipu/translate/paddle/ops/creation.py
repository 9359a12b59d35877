"""Constants, random numbers, and what stands for a tensor that is made in place."""

from __future__ import annotations

import torch

from openipu.translate.paddle.calls import Answer, Call, translates


def _read_shape(call: Call) -> list[int]:
    sizes = call.numbers("shape", "ShapeTensor", "ShapeTensorList")
    call.site.check_size(sizes)
    return sizes


@translates("fill_constant")
def fill(call: Call) -> Answer:
    dtype, shape = call.dtype(), _read_shape(call)
    if call.has("ValueTensor"):
        return call.tensor("ValueTensor").reshape(()).to(dtype).expand(shape).clone()
    text = str(call.get("str_value") or "")
    value = float(text) if text else float(call.get("value", 0.0) or 0.0)
    if not dtype.is_floating_point and text:
        value = int(float(text)) if not text.lstrip("-").isdigit() else int(text)
    return torch.full(shape, value, dtype=dtype)


@translates("fill_any_like", "full_like")
def fill_like(call: Call) -> Answer:
    x = call.tensor("X")
    return torch.full(list(x.shape), float(call.get("value", 0.0) or 0.0)).to(call.dtype("dtype", x.dtype))


@translates("fill_zeros_like", "fill_zeros_like2")
def zeros_like(call: Call) -> Answer:
    return torch.zeros_like(call.tensor("X"))


@translates("fill_constant_batch_size_like")
def fill_like_batch(call: Call) -> Answer:
    shape = call.numbers("shape")
    source = call.tensor("Input").shape[call.whole("input_dim_idx")]
    shape[call.whole("output_dim_idx")] = source
    call.site.check_size(shape)
    return torch.full(shape, call.number("value"), dtype=call.dtype())


@translates("assign_value")
def assign_value(call: Call) -> Answer:
    dtype, shape = call.dtype(), call.numbers("shape")
    call.site.check_size(shape)
    for name in ("values", "fp32_values", "int32_values", "int64_values", "bool_values", "fp64_values"):
        values = call.get(name)
        if values:
            return torch.tensor(list(values)).to(dtype).reshape(shape)
    return torch.zeros(shape, dtype=dtype)


@translates("range")
def count(call: Call) -> Answer:
    start, end, step = (call.scalar(name.lower(), name) for name in ("Start", "End", "Step"))
    dtype = call.tensor("Start").dtype
    if step == 0 or abs((end - start) / step) > 1 << 26:
        call.fail(f"would count from {start} to {end} in steps of {step}")
    return torch.arange(start, end, step).to(dtype)


@translates("linspace")
def spread(call: Call) -> Answer:
    start, end = call.scalar("start", "Start"), call.scalar("stop", "Stop")
    number = int(call.scalar("num", "Num"))
    call.site.check_size([number])
    return torch.linspace(start, end, number).to(call.dtype())


@translates("eye")
def identity(call: Call) -> Answer:
    rows = call.whole("num_rows")
    columns = call.whole("num_columns", -1)
    call.site.check_size([rows, max(columns, 0)])
    return torch.eye(rows, rows if columns < 0 else columns, dtype=call.dtype())


@translates("gaussian_random", folds=False)
def draw_normal(call: Call) -> Answer:
    drawn = torch.randn(_read_shape(call)) * call.number("std", 1.0) + call.number("mean")
    return drawn.to(call.dtype())


@translates("uniform_random", folds=False)
def draw_uniform(call: Call) -> Answer:
    low, high = call.number("min", -1.0), call.number("max", 1.0)
    return (torch.rand(_read_shape(call)) * (high - low) + low).to(call.dtype())


@translates("dropout", folds=False)
def dropout(call: Call) -> Answer:
    """In place of Paddle's seeds and masks those of the program: the share that is dropped is the same."""
    x, share = call.tensor("X"), call.scalar("dropout_prob", "Seedless", 0.5)
    upscaled = call.get("dropout_implementation", "downgrade_in_infer") == "upscale_in_train"
    if call.flag("is_test"):
        return x if upscaled else x * (1 - share)
    if share == 0:
        return x
    dropped = torch.nn.functional.dropout(x, share, True)
    return dropped if upscaled or share == 1 else dropped * (1 - share)


@translates("one_hot", "one_hot_v2")
def one_hot(call: Call) -> Answer:
    x = call.tensor("X")
    depth = call.numbers("depth", "depth_tensor", default=[-1])[0]
    call.site.check_size([depth])
    if call.op == "one_hot" and x.dim() > 1 and x.shape[-1] == 1:
        x = x.squeeze(-1)
    places = torch.arange(depth)
    return (x.unsqueeze(-1).to(torch.int64) == places).to(call.dtype())


@translates("lookup_table", "lookup_table_v2")
def look_up(call: Call) -> Answer:
    table, places = call.tensor("W"), call.tensor("Ids").to(torch.int64)
    if call.op == "lookup_table" and places.dim() > 1 and places.shape[-1] == 1:
        places = places.squeeze(-1)
    padding = call.whole("padding_idx", -1)
    found = torch.nn.functional.embedding(places, table)
    if padding == -1:
        return found
    row = padding % table.shape[0]
    return torch.where((places == row).unsqueeze(-1), torch.zeros((), dtype=found.dtype), found)
