"""Which IPU, stage and phase each node is on, and what PopART refuses about it.

In: a model whose nodes say where they want to be, options, a device. Out: the model with places that hold under these
options; popart_exception where they contradict each other.
"""

from __future__ import annotations

from dataclasses import replace

from openipu.translate import ForeignNode, Place
from openipu.translate.onnx import OnnxModel
from popart._dataflow import DataFlow
from popart._device_manager import DeviceInfo
from popart._enumerations.devices import DeviceType
from popart._enumerations.sessions import VirtualGraphMode
from popart._exceptions import popart_exception
from popart._options import SessionOptions
from popart._sessions.checks.pipelines import check_forward_program, check_stages
from popart._sessions.translation import count_replicas


def place_nodes(model: OnnxModel, options: SessionOptions, ipus: int) -> OnnxModel:
    """Nodes with places: none without virtual graphs; a node without a stage is in that of its IPU.

    The automatic mode gives each IPU as many nodes; `openipu auto` looks for better splits.
    """
    if options.virtualGraphMode is VirtualGraphMode.Auto:
        count = max(1, len(model.graph.nodes))
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
    if options.enablePipelining:
        check_stages(model)
        _check_pipeline(model, options, flow, training, own)


def check_ipus(model: OnnxModel, options: SessionOptions, device: DeviceInfo) -> None:
    """Refuse IPUs that the device does not have."""
    own = max(1, device.numIpus // count_replicas(options))
    if options.virtualGraphMode is not VirtualGraphMode.Manual or device.type is DeviceType.Cpu:
        return
    for node in model.graph.nodes:
        if node.place.ipu is not None and node.place.ipu >= own:
            raise popart_exception(
                f"{node.title} (inputs=[{', '.join(node.inputs)}], outputs=[{', '.join(node.outputs)}]) has been "
                f"assigned to an invalid virtual graph {node.place.ipu}: the device has {own} IPUs for each replica."
            )


def _check_pipeline(model: OnnxModel, options: SessionOptions, flow: DataFlow, training: bool, own: int) -> None:
    if options.virtualGraphMode is VirtualGraphMode.Off or (own == 1 and not _has_stages(model)):
        raise popart_exception("Pipelining requires more than 1 IPU (currently 1), or more than one stage.")
    stages = {node.place.stage for node in model.graph.nodes if node.place.stage is not None}
    count = (max(stages) + 1) if stages else 1
    least = 2 * (count - 1) + 1 if training else count
    depth = options.accumulationFactor if options.enableGradientAccumulation else flow.batchesPerStep()
    if depth < least:
        word = "gradient accumulation factor" if options.enableGradientAccumulation else "batchesPerStep"
        raise popart_exception(
            f"For pipelining, depth ({word}) must equal at least the number of pipeline stages ({least}), and is "
            f"{depth}."
        )


def _has_stages(model: OnnxModel) -> bool:
    return any(read_number(node, "__pipeline_stage") is not None for node in model.graph.nodes)
