"""Which IPU, stage and phase each node is on, and what PopART refuses about it.

In: a model whose nodes say where they want to be, options, a device. Out: the model with places that hold under these
options; popart_exception where they contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from openipu.translate import ForeignNode, Place
from openipu.translate.onnx import OnnxModel
from popart._dataflow import DataFlow
from popart._device_manager import DeviceInfo
from popart._enumerations.devices import DeviceType
from popart._enumerations.sessions import VirtualGraphMode
from popart._exceptions import popart_exception
from popart._options import SessionOptions
from popart._prefixes import RESTORED
from popart._sessions.checks.pipelines import check_forward_program, check_stages
from popart._sessions.checks.places import check_nodes
from popart._sessions.translation import count_replicas


def place_nodes(model: OnnxModel, options: SessionOptions, ipus: int) -> OnnxModel:
    """Nodes with places: none without virtual graphs; a node without a stage is in that of its IPU.

    The automatic mode gives each IPU as many nodes; `openipu auto` looks for better splits.
    """
    if options.virtualGraphMode is VirtualGraphMode.Auto:
        count = max(1, len(model.graph.nodes))
        if len([node for node in model.graph.nodes if node.op != "Constant"]) < ipus:
            raise popart_exception(
                f"[AutoVirtualGraph] Couldn't find enough splits for {ipus} IPUs: the model has {count} ops."
            )
        each = [index * ipus // count for index in range(count)]
        placed = zip(model.graph.nodes, each, strict=False)
        nodes = tuple(replace(node, place=Place(ipu=ipu, stage=ipu)) for node, ipu in placed)
    else:
        nodes = tuple(_place(node, options) for node in model.graph.nodes)
    return replace(model, graph=replace(model.graph, nodes=nodes))


def _place(node: ForeignNode, options: SessionOptions) -> ForeignNode:
    ipu, stage, phase = read_number(node, "__ipu_number"), read_number(node, "__pipeline_stage"), None
    if options.virtualGraphMode is VirtualGraphMode.Off:
        place = Place()
    elif options.virtualGraphMode is VirtualGraphMode.ExecutionPhases:
        phase = read_number(node, "__execution_phase")
        place = Place(ipu=ipu, phase=phase)
    elif options.enablePipelining:
        place = Place(ipu=ipu, stage=stage if stage is not None else ipu)
    else:
        place = Place(ipu=ipu, stage=ipu)
    return replace(node, place=place)


def add_restored(model: OnnxModel, anchors: Iterable[str]) -> OnnxModel:
    """Activations that a pipeline kept for the backward pass are the same as they were: copies by PopART's names."""
    maker = {name: node for node in model.graph.nodes for name in node.outputs}
    known = {*maker, *model.graph.inputs}
    wanted = [name for name in anchors if name.startswith(RESTORED) and name.removeprefix(RESTORED) in known]
    made = []
    for name in wanted:
        tensor = name.removeprefix(RESTORED)
        readers = [node for node in model.graph.nodes if tensor in node.inputs]
        place = (maker.get(tensor) or readers[0]).place if tensor in maker or readers else Place()
        made.append(
            ForeignNode("Identity", (tensor,), (name,), version=model.graph.nodes[0].version, name=name, place=place)
        )
    return replace(model, graph=replace(model.graph, nodes=(*model.graph.nodes, *made)))


def read_number(node: ForeignNode, name: str) -> int | None:
    """A whole number among a node's attributes, that is not negative."""
    found = node.attributes.get(name)
    return found if isinstance(found, int) and found >= 0 else None


def check_placement(
    model: OnnxModel, options: SessionOptions, flow: DataFlow, device: DeviceInfo, training: bool
) -> None:
    """Refuse places that cannot be."""
    replicas = count_replicas(options)
    if device.numIpus % replicas and device.type is not DeviceType.Cpu:
        raise popart_exception(
            f"For replicated graphs, the number of IPUs must be divisible by the replication factor: the device has "
            f"{device.numIpus}, and there are {replicas} replicas."
        )
    own = max(1, device.numIpus // replicas)
    check_forward_program(options)
    check_nodes(model, options)
    if options.enablePipelining:
        check_stages(model)
        alone = own == 1 and device.type is not DeviceType.Cpu and not options.enableExplicitMainLoops
        if options.virtualGraphMode is VirtualGraphMode.Off or alone:
            raise popart_exception(
                f"Pipelining requires more than 1 IPU (currently {own}) and the 'virtualGraphMode' session option to "
                f"not be VirtualGraphMode::Off (currently {options.virtualGraphMode.name})."
            )
        _check_pipeline(model, options, flow, training)


def check_ipus(model: OnnxModel, options: SessionOptions, device: DeviceInfo) -> None:
    """Refuse IPUs that the device does not have."""
    own = max(1, device.numIpus // count_replicas(options))
    if options.virtualGraphMode is not VirtualGraphMode.Manual or device.type is DeviceType.Cpu:
        return
    maker = {name: node for node in model.graph.nodes for name in node.outputs}
    for node in model.graph.nodes:
        if node.place.ipu is not None and node.place.ipu >= own:
            copied = [
                f"{name}_c{node.place.ipu}" if name in maker and maker[name].place.ipu != node.place.ipu else name
                for name in node.inputs
            ]  # PopART's names of what comes from another IPU
            raise popart_exception(
                f"{node.title} (inputs=[{', '.join(copied)}], outputs=[{', '.join(node.outputs)}]) has been "
                f"assigned to an invalid virtual graph {node.place.ipu}: the device has {own} IPUs for each replica."
            )


def _check_pipeline(model: OnnxModel, options: SessionOptions, flow: DataFlow, training: bool) -> None:
    ipus = {node.place.stage: node.place.ipu for node in model.graph.nodes if node.place.stage is not None}
    # Stages that follow one another on one IPU are one.
    joined = sum(ipu is not None and ipus.get(stage - 1) == ipu for stage, ipu in ipus.items())
    count = max(ipus) + 1 - joined if ipus else 1
    least = 2 * (count - 1) + 1 if training else count
    depth = options.accumulationFactor if options.enableGradientAccumulation else flow.batchesPerStep()
    if depth < least:
        word = "gradient accumulation factor" if options.enableGradientAccumulation else "batchesPerStep"
        raise popart_exception(
            f"For pipelining, depth ({word}) must equal at least the number of pipeline stages ({least}), and is "
            f"{depth}."
        )
