"""Each batched operator computes what a loop over the micro-batches computes."""

import pytest
import torch
from batching_case import FACTOR, batch, check, count, trace
from torch.nn import functional

from openipu.run.rewrites.half.rounding import round_half

aten = torch.ops.aten


def differentiate(function):
    """A function of the weight and inputs that returns its value, and the gradient of a mean over the micro-batch."""

    def run(w, *inputs):
        w = w.detach().requires_grad_()
        value = function(w, *inputs)
        (gradient,) = torch.autograd.grad(value.square().mean(), w)
        return value.detach(), gradient

    return run


def make_inputs():
    torch.manual_seed(1)
    return {"x": torch.randn(2 * FACTOR, 4, 6), "i": torch.randint(0, 6, (2 * FACTOR, 4))}


def as_tuple(value):
    return value if isinstance(value, tuple) else (value,)


FORWARD = {
    "sum of all": lambda x, i: x.sum(),
    "mean kept": lambda x, i: x.mean((0, -1), keepdim=True),
    "sum of a scalar": lambda x, i: x.sum().sum() + x.sum().mean(),
    "largest": lambda x, i: (x.amax(-1) + x.max(), *x.max(1)),
    "variance": lambda x, i: (x.var(1), x.std((0, 2), correction=0), *torch.var_mean(x)),
    "norm": lambda x, i: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, dim=1), x.norm(dim=(0, 1))),
    "argmax": lambda x, i: x.argmax(-1) + x.argmax(),
    "any": lambda x, i: ((x > 1).any(0) | (x > -3).all(), (x > 3).any(), (x > -1).all(2)),
    "cumsum": lambda x, i: x.cumsum(0) + x.cumsum(-1),
    "sort": lambda x, i: (*x.sort(-1), *x.topk(2, dim=1)),
    "logsumexp": lambda x, i: x.logsumexp((1, 2)),
    "softmax": lambda x, i: x.softmax(0) + x.log_softmax(-1),
    "broadcast scalar": lambda x, i: x * x.mean() + i.sum(),
    "scalars of two formats": lambda x, i: x.sum() * x.sum().double(),
    "narrow scalar beside wide tensor": lambda x, i: x.double() + x.sum(),
    "wide scalar beside narrow tensor": lambda x, i: x + x.sum().double(),
    "lower rank": lambda x, i: x + x[0] + x[0, 0] + i[:, :, None],
    "where": lambda x, i: torch.where(i[..., None] > 2, x, 0.5),
    "comparison": lambda x, i: (x > x.mean()).float(),
    "permute": lambda x, i: x.permute(2, 0, 1).reshape(6, 8).t(),
    "squeeze": lambda x, i: (x[:, :1].squeeze(), x[:, :1].squeeze(1)),
    "split": lambda x, i: torch.cat([part * 2 for part in x.split(2, dim=1)][::-1], dim=-1),
    "unbind": lambda x, i: torch.stack(x.unbind(1)[::-1], dim=-1),
    "cat with an unbatched part": lambda x, i: torch.cat([x, torch.ones(2, 4, 1)], -1),
    "expand": lambda x, i: (x[:, None].expand(2, 3, 4, 6) * 2, x.sum().expand(6) * 2, x[0, 0].expand(2, 6) + 1),
    "repeat": lambda x, i: x.repeat(2, 1, 1, 3),
    "flip and roll": lambda x, i: x.flip(0) + x.roll(2, 1) + x.roll(3),
    "tril": lambda x, i: x.tril() + x.triu(1),
    "diagonal": lambda x, i: (x.diagonal(1, 1, 2), torch.diag_embed(x[:, :, 0])),
    "pad": lambda x, i: functional.pad(x, (1, 2)) + functional.pad(x, (1, 2), value=3.0),
    "unfold": lambda x, i: x.unfold(2, 3, 2),
    "gather": lambda x, i: x.gather(2, i[..., None]) + torch.arange(6.0).expand(2, 4, 6).gather(2, i[..., None]),
    "scatter": lambda x, i: torch.zeros(2, 4, 6).scatter(2, i[..., None], x[..., :1]) + x.scatter(2, i[..., None], 7.0),
    "scatter add": lambda x, i: torch.zeros(2, 4, 6).scatter_add(2, i[..., None], x[..., :1]),
    "index select": lambda x, i: (
        x.index_select(2, torch.tensor([3, 0])),
        torch.arange(12.0).view(2, 6).index_select(1, i[:, 0]),
    ),
    "index select of both": lambda x, i: x.index_select(2, i[0]),
    "index select of rows": lambda x, i: (x[0].index_select(0, i[1] % 4), x.flatten(0, 1).index_select(0, i.flatten())),
    "index add": lambda x, i: (
        torch.zeros(6, 6).index_add(0, i[0], x[0]),
        x[0].index_add(0, i.flatten() % 4, x.flatten(0, 1), alpha=0.5),
        x.index_add(1, torch.tensor([2, 2]), x[:, :2]),
        torch.zeros(2, 6).index_add(1, i[0], x[:, :, 0]),
    ),
    "index copy": lambda x, i: (torch.zeros(6, 6).index_copy(0, torch.tensor([1, 3, 5, 0]), x[0]),),
    "index by constants": lambda x, i: (x[:, torch.tensor([2, 0])], x[torch.tensor([0, 1]), :, torch.tensor([1, 2])]),
    "index by inputs": lambda x, i: (x[torch.arange(2)[:, None], :, i], x[0, :, i], x[0][i % 4], x[:, :, i]),
    "index of shared values": lambda x, i: (torch.arange(24.0).view(4, 6)[:, i], torch.arange(24.0).view(6, 4)[i]),
    "index with a gap": lambda x, i: (x[torch.arange(2), :, i[:, 0]], torch.arange(72.0).view(6, 2, 6)[i, :, i]),
    "index put": lambda x, i: aten.index_put(x, [None, None, i[0]], x[:, :, :4]),
    "index put at inputs": lambda x, i: aten.index_put(x, [torch.arange(2)[:, None], i[:, :2] % 4], x[:, :2] * 2, True),
    "product with constants": lambda x, i: (x @ torch.ones(6, 3), torch.ones(4, 6) @ x.transpose(1, 2)),
    "matrix by shared matrix": lambda x, i: (
        torch.ones(5, 4) @ x[0],
        x[0].t() @ torch.ones(4, 6),
        x[:1] @ torch.ones(1, 6, 2),
    ),
    "products of inputs": lambda x, i: x @ x.transpose(1, 2) + x[0] @ x[1].t(),
    "dot": lambda x, i: torch.dot(x[0, 0], x[1, 1]) + torch.mv(x[0], x[0, 0]),
    "added product": lambda x, i: (
        torch.addmm(x[0, 0], x[1], torch.ones(6, 6)),
        torch.addmm(torch.ones(4, 6), x[0], x[1].t() @ x[1], alpha=2),
    ),
    "added batched product": lambda x, i: torch.baddbmm(x[:, :, :1], x, x.transpose(1, 2), beta=0.5),
    "mse": lambda x, i: functional.mse_loss(x, torch.ones(2, 4, 6)) + functional.mse_loss(x[0], x[1], reduction="sum"),
    "other losses": lambda x, i: (
        functional.huber_loss(x, x * 2) + functional.smooth_l1_loss(x, x * 3, reduction="none").sum()
    ),
    "binary cross entropy": lambda x, i: functional.binary_cross_entropy(
        x.sigmoid(), (x > 0).float(), weight=torch.ones(6)
    ),
    "label of one sample": lambda x, i: functional.cross_entropy(x[0, 0], i[0, 0]),
    "loss of each label": lambda x, i: functional.nll_loss(x.transpose(1, 2), i, reduction="none"),
    "grid": lambda x, i: (
        functional.max_pool2d(x[:, None], 2)
        + functional.avg_pool2d(x[:, None], 2)
        + functional.adaptive_avg_pool2d(x, (2, 3))[:, None]
    ),
    "upsampling": lambda x, i: (
        functional.interpolate(x[:, None], scale_factor=2)
        + functional.interpolate(x[:, None], (8, 12), mode="bilinear")
    ),
    "reflection": lambda x, i: functional.pad(x, (1, 1), mode="reflect"),
    "bits as another format": lambda x, i: (x.view(torch.int32) & 0xFFFF0000 - (1 << 32)).view(torch.float32),
    "what has no batched form": lambda x, i: torch.linalg.inv_ex(x[0] @ x[0].t() + torch.eye(4)).inverse,
    "own statistics": lambda x, i: functional.batch_norm(x, None, None, training=True),
    "given statistics": lambda x, i: functional.batch_norm(x, torch.zeros(4), torch.ones(4)),
    "constant": lambda x, i: torch.ones_like(x) + 1,
    "channels last": lambda x, i: x[..., None].contiguous(memory_format=torch.channels_last) * 2,
}


@pytest.mark.parametrize("name", FORWARD)
def test_an_operator_gives_what_the_loop_gives(build_program, name):
    case = trace(build_program, lambda x, i: as_tuple(FORWARD[name](x, i)), make_inputs())
    check(case)


def test_messages_between_nodes_are_moved_by_one_operator(build_program):
    """What message passing does: rows by one index, added by another one."""

    def pass_messages(x, i):
        messages = x.flatten(0, 1).index_select(0, i.flatten())
        return torch.zeros(8, 6).index_add(0, i.flatten(), messages)

    batched = check(trace(build_program, lambda x, i: (pass_messages(x, i),), make_inputs()))
    assert count(batched, aten.index_select.default) == [1]
    assert count(batched, aten.index_add.default) == [1]


GRADIENTS = {
    "messages": ((6,), lambda w, x, i: (x.flatten(0, 1) * w).index_select(0, i.flatten())),
    "product": ((6, 5), lambda w, x, i: x @ w),
    "product with a bias for each row": ((4, 6), lambda w, x, i: torch.addmm(w, x[0], torch.eye(6))),
    "weight on the left": ((3, 4), lambda w, x, i: w @ x),
    "batched weight": ((2, 6, 3), lambda w, x, i: torch.bmm(x, w)),
    "scale": ((6,), lambda w, x, i: (x * w / 3 - w).neg()),
    "scalar": ((), lambda w, x, i: x * w + w),
    "embedding": ((6, 3), lambda w, x, i: functional.embedding(i, w)),
    "embedding by constants": ((6, 3), lambda w, x, i: functional.embedding(torch.tensor([1, 1, 3]), w) * x[:, :3, :3]),
    "embedding with padding": ((6, 3), lambda w, x, i: functional.embedding(i, w, padding_idx=2)),
    "index": ((6, 3), lambda w, x, i: w[i] * x[..., :3]),
    "index of columns": ((3, 6), lambda w, x, i: w[:, i] * x[..., 0]),
    "parts": ((4, 6), lambda w, x, i: torch.cat([w[1:], w[:1] * 2]) * x + w.select(0, 2) * x[:, :1]),
    "expanded": ((6,), lambda w, x, i: w.expand(4, 6).t() * x.transpose(1, 2)),
    "layer norm": ((6,), lambda w, x, i: functional.layer_norm(x, (6,), w, w)),
    "layer norm of a weight": ((4, 6), lambda w, x, i: functional.layer_norm(w, (6,), w[0], w[1]) * x),
    "group norm": ((4,), lambda w, x, i: functional.group_norm(x, 2, w)),
    "group norm of a weight": ((2, 4, 6), lambda w, x, i: functional.group_norm(w, 2, w[0, :, 0]) * x),
    "batch norm": ((4,), lambda w, x, i: functional.batch_norm(x, torch.zeros(4), torch.ones(4), w, w)),
    "convolution": ((3, 4, 3), lambda w, x, i: functional.conv1d(x, w, padding=1)),
    "transposed convolution": ((4, 2, 3), lambda w, x, i: functional.conv_transpose1d(x, w, stride=2)),
    "grouped convolution": ((4, 2, 3), lambda w, x, i: functional.conv1d(x, w, groups=2)),
    "normalised weight": ((3, 4, 3), lambda w, x, i: functional.conv1d(x, w / w.square().sum().sqrt(), padding=1)),
    "weight that the input changes": (
        (4, 6),
        lambda w, x, i: functional.layer_norm(x[0], (6,), w[0] * x[1, 0], w[1] * x[1, 1]),
    ),
    "softmax": ((6, 6), lambda w, x, i: (x @ w).softmax(-1) + (x * w[0]).log_softmax(1)),
    "attention": ((6, 6), lambda w, x, i: (x @ w @ x.transpose(1, 2)).softmax(-1) @ x),
    "padded": ((4, 6), lambda w, x, i: functional.pad(w, (1, 1)) * functional.pad(x, (1, 1), value=1.0)),
    "cross entropy": ((6, 6), lambda w, x, i: functional.cross_entropy((x @ w).transpose(1, 2), i)),
    "cross entropy with weights of classes": (
        (6,),
        lambda w, x, i: functional.cross_entropy(
            (x * w).flatten(0, 1), i.flatten(), weight=torch.arange(6.0), ignore_index=3
        ),
    ),
    "mean square": (
        (6,),
        lambda w, x, i: (
            functional.mse_loss(x * w, x) + functional.binary_cross_entropy((x * w).sigmoid(), (x > 0).float())
        ),
    ),
    "independent of the inputs": ((6,), lambda w, x, i: w.square()),
    "pooling": (
        (4, 1),
        lambda w, x, i: (
            functional.max_pool2d((x * w)[:, None], 2) + functional.adaptive_avg_pool2d((x * w)[:, None], (2, 3))
        ),
    ),
    "single precision of half": ((6, 5), lambda w, x, i: (x.half() @ w.half()).float()),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_gradient_is_the_sum_over_the_micro_batches(build_program, name):
    shape, function = GRADIENTS[name]
    torch.manual_seed(2)
    case = trace(build_program, differentiate(function), make_inputs(), torch.randn(shape) + 0.5)
    check(case, tolerance=2e-3 if "half" in name else 2e-5)


def test_attention_as_one_operator_is_batched(build_program):
    def attend(w, x, i):
        query, mask = (x @ w).view(2, 1, 4, 6), torch.zeros(2, 1, 1, 4).masked_fill(i[:, None, None] == 0, -3.0)
        flash = aten._scaled_dot_product_flash_attention_for_cpu
        result, scale = flash(query, query, query, attn_mask=mask)
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        gradient = backward(result, query, query, query, result, scale, 0.0, False, attn_mask=mask)[0]
        return result, x[0].t() @ gradient[0, 0]

    torch.manual_seed(0)
    batched = check(trace(build_program, attend, make_inputs(), torch.randn(6, 6)))
    assert count(batched, aten._scaled_dot_product_flash_attention_for_cpu.default) == [1]


def test_shared_values_are_rounded_for_each_micro_batch(build_program):
    def round_weights(w, x, i):
        bits = i.sum().to(torch.int32) * 123456789 + torch.arange(6, dtype=torch.int32) * 987654321
        return round_half(w, bits, "infinity"), w

    weights = torch.linspace(1, 1.5, 6) + 1 / 2048
    batched = check(trace(build_program, round_weights, make_inputs(), weights))
    rows = trace(build_program, round_weights, make_inputs(), weights).run_batched(batched)[0].view(FACTOR, 6)
    assert (rows != rows[0]).any()


def test_an_input_that_lies_unusually_in_memory_is_batched(build_program):
    case = trace(build_program, lambda x, i: (x.transpose(1, 2) @ x,), make_inputs())
    case.inputs[case.draft.inputs[0].node] = torch.randn(4, 2 * FACTOR, 6).transpose(0, 1)
    torch.testing.assert_close(case.run_batched(batch(case.draft)), tuple(case.run_loop()))


def test_scalar_inputs_are_the_same_for_all_micro_batches(build_program):
    inputs = {"x": torch.randn(2 * FACTOR, 3), "s": torch.tensor(2.0)}
    batched = check(trace(build_program, lambda x, s: (x * s, s + 1, x.sum() * s), inputs))
    assert [entry.shape for entry in batched.outputs] == [(2 * FACTOR, 3), (FACTOR,), (FACTOR,)]
