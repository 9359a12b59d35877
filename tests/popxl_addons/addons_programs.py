"""Two small models as modules, the same in plain PyTorch, and a program that trains one in many ways."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons.layers import Embedding, LayerNorm, Linear
from popxl_addons.named_replica_grouping import NamedReplicaGrouping
from popxl_addons.optimizers import AdamOptimizerStep
from popxl_addons.rts import reduce_replica_sharded_graph, replica_sharded_spec

CLASSES = 4
ADAM = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "weight_decay": 0.05}


class Perceptron(addons.Module):
    """Three dense layers."""

    inputs = ((6,), popxl.float32)

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = Linear(8)
        self.fc2 = Linear(8)
        self.fc3 = Linear(CLASSES)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        x = ops.gelu(self.fc1(x))
        x = ops.gelu(self.fc2(x))
        return self.fc3(x)

    @staticmethod
    def reference(w: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(x @ w["fc1.weight"] + w["fc1.bias"], approximate="tanh")
        x = F.gelu(x @ w["fc2.weight"] + w["fc2.bias"], approximate="tanh")
        return x @ w["fc3.weight"] + w["fc3.bias"]

    @staticmethod
    def draw(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        return rng.normal(size=(count, 6)).astype(np.float32)


class Block(addons.Module):
    """Self-attention and a feed-forward part, each with layer normalisation and a residual."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(24)
        self.out = Linear(8)
        self.ln1 = LayerNorm()
        self.ff1 = Linear(16)
        self.ff2 = Linear(8)
        self.ln2 = LayerNorm()

    def build(self, x: popxl.Tensor, sequence: int) -> popxl.Tensor:
        rows, hidden = x.shape
        shape = (rows // sequence, sequence, self.heads, hidden // self.heads)
        q, k, v = (t.reshape(shape).transpose((0, 2, 1, 3)) for t in ops.split(self.qkv(x), 3, axis=1))
        scores = ops.softmax(q @ k.transpose((0, 1, 3, 2)) * (1 / math.sqrt(shape[-1])), axis=-1)
        attended = (scores @ v).transpose((0, 2, 1, 3)).reshape((rows, hidden))
        x = self.ln1(x + self.out(attended))
        return self.ln2(x + self.ff2(ops.gelu(self.ff1(x))))


class Transformer(addons.Module):
    """An embedding, two blocks that share one graph, and a classifier of the mean."""

    inputs = ((5,), popxl.int32)
    sequence, vocabulary = 5, 16

    def __init__(self) -> None:
        super().__init__()
        self.embedding = Embedding(popxl.float32, self.vocabulary, 8)
        self.head = Linear(CLASSES)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        h = self.embedding(x.flatten())
        factories, graph = Block(2).create_graph(h, self.sequence)
        for layer in range(2):
            (h,) = graph.bind(self.add_variable_inputs(layer, factories)).call(h)
        return self.head(ops.mean(h.reshape((*x.shape, 8)), 1))

    @staticmethod
    def reference(w: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        h = w["embedding.weight"][x.long().flatten()]
        for layer in range(2):
            p = {name.removeprefix(f"{layer}."): t for name, t in w.items() if name.startswith(f"{layer}.")}
            shape = (*x.shape, 2, 4)
            parts = (h @ p["qkv.weight"] + p["qkv.bias"]).chunk(3, 1)
            q, k, v = (t.reshape(shape).transpose(1, 2) for t in parts)
            attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(h.shape)
            h = F.layer_norm(h + attended @ p["out.weight"] + p["out.bias"], (8,), p["ln1.weight"], p["ln1.bias"])
            inner = F.gelu(h @ p["ff1.weight"] + p["ff1.bias"], approximate="tanh")
            h = F.layer_norm(h + inner @ p["ff2.weight"] + p["ff2.bias"], (8,), p["ln2.weight"], p["ln2.bias"])
        return h.reshape(*x.shape, 8).mean(1) @ w["head.weight"] + w["head.bias"]

    @staticmethod
    def draw(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
        return rng.integers(0, 16, (count, 5)).astype(np.int32)


@dataclass
class Outcome:
    """Losses of all micro-batches, and the weights before and after."""

    losses: list[float] = field(default_factory=list)
    before: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    after: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scheme:
    """How a batch is trained: in so many micro-batches, on so many replicas, with state on chip, remote or sharded."""

    accumulation: int = 1
    replicas: int = 1
    state: str = "chip"
    recompute: bool = False


def make_batches(net: Any, batch: int, steps: int) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(7)
    return [(net.draw(rng, batch), rng.integers(0, CLASSES, batch).astype(np.int32)) for _ in range(steps)]


def train_reference(net: Any, before: dict[str, np.ndarray[Any, Any]], batches: Any) -> Outcome:
    """The same training in PyTorch."""
    weights = {name: torch.tensor(value, requires_grad=True) for name, value in before.items()}
    optimizer = torch.optim.AdamW(
        list(weights.values()),
        lr=ADAM["lr"],
        betas=(ADAM["beta1"], ADAM["beta2"]),
        eps=ADAM["eps"],
        weight_decay=ADAM["weight_decay"],
    )
    outcome = Outcome(before=before)
    for x, y in batches:
        loss = F.cross_entropy(net.reference(weights, torch.from_numpy(x)), torch.from_numpy(y).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outcome.losses.append(loss.item())
    outcome.after = {name: t.detach().numpy() for name, t in weights.items()}
    return outcome


def train(make_net: Callable[[], Any], batches: Any, scheme: Scheme) -> Outcome:
    """Train with one graph for forward, one for backward that accumulates, and Adam for each variable."""
    np.random.seed(3)
    micro = len(batches[0][1]) // (scheme.accumulation * scheme.replicas)
    net = make_net()
    ir = popxl.Ir(replication=scheme.replicas)
    ir.num_host_transfers = scheme.accumulation
    with ir.main_graph, popxl.in_sequence(True):
        shape, dtype = net.inputs
        streams = addons.InputStreams(x=((micro, *shape), dtype), y=((micro,), popxl.int32))
        loss_stream = popxl.d2h_stream((), popxl.float32, "loss")
        factories, fwd = net.create_graph(streams.x.spec)
        variables = factories.init()
        bwd_factories, bwd = addons.autodiff_with_accumulation(fwd, fwd.args.tensors, grads_required=[])
        if scheme.recompute:
            bwd = addons.recompute_graph(bwd)
        accumulators = bwd_factories.init()
        for _ in range(scheme.accumulation):
            x, y = (ops.host_load(stream) for stream in streams)
            forward = fwd.bind(variables).call_with_info(x)
            loss, dx = addons.cross_entropy_with_grad(forward.outputs[0], y)
            ops.host_store(loss_stream, loss)
            bwd.bind(accumulators).call(dx, args=bwd.grad_graph_info.inputs_dict(forward))
        _update(variables, accumulators, scheme)
        ops.var_updates.accumulator_scale_(accumulators.mean_accum_counter, 0.0)

    outcome = Outcome()
    with popxl.Session(ir, "ipu_hw") as session:
        outcome.before = _read(session, variables)
        for x, y in batches:
            lead = [n for n in (scheme.accumulation, scheme.replicas) if n > 1]
            fed = {streams.x: x.reshape(*lead, micro, *shape), streams.y: y.reshape(*lead, micro)}
            losses = session.run(fed)[loss_stream]
            outcome.losses.append(float(np.mean(losses)))
        outcome.after = _read(session, variables)
    return outcome


def _read(session: popxl.Session, variables: addons.NamedTensors) -> dict[str, np.ndarray[Any, Any]]:
    values = session.get_tensors_data(variables.tensors)
    return {name: values[t].copy() for name, t in variables.to_dict().items()}


def _update(variables: addons.NamedTensors, accumulators: addons.NamedTensors, scheme: Scheme) -> None:
    """Reduce the gradients over replicas and update each variable, or each replica's shard of it."""
    gradients = accumulators.accum
    group = popxl.gcg().ir.replica_grouping()
    sharded = scheme.state == "sharded"
    if scheme.replicas > 1:
        whole = popxl.gcg().ir.replica_grouping(group_size=1)
        shards = NamedReplicaGrouping.build_groups(gradients.keys_flat(), group if sharded else whole)
        graph, names = reduce_replica_sharded_graph(gradients, "mean", shard_groups=shards, replica_group=group)
        gradients = addons.NamedTensors.pack(names, graph.bind(gradients).call())
    optimizer = AdamOptimizerStep(cache=True)
    for name, variable in variables.to_dict().items():
        gradient = gradients.get(name)
        target = ops.collectives.replica_sharded_slice(variable, group=group) if gradient.meta_shape else variable
        spec = replica_sharded_spec(variable, group) if gradient.meta_shape else variable.spec
        factories, graph = optimizer.create_graph(spec, spec, lr=ADAM["lr"], **_options())
        if scheme.state == "chip":
            graph.bind(factories.init(prefix=name)).call(target, gradient)
        else:
            buffers = addons.named_variable_buffers(factories, shard_over_dict=False)
            factories.init_remote(buffers, prefix=name)
            load, names = addons.load_remote_graph(buffers)
            state = addons.NamedTensors.pack(names, load.call(0))
            graph.bind(state).call(target, gradient)
            addons.store_remote_graph(buffers).bind(state).call(0)
        if gradient.meta_shape:
            ops.var_updates.copy_var_update_(variable, ops.collectives.replicated_all_gather(target, group=group))


def _options() -> dict[str, Any]:
    options: dict[str, Any] = {name: value for name, value in ADAM.items() if name != "lr"}
    return {**options, "first_order_dtype": popxl.float32}
