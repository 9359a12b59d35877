"""A model in four pipeline stages on four IPUs, trained with accumulated gradients: the same losses as on one IPU.

Run it with `python examples/popart/pipeline.py`, and with `--ipus 1` to compare; `openipu run --profile out
examples/popart/pipeline.py` shows how the stages take turns. `--help` lists the options.
"""

import argparse

import numpy as np

import popart


def build_model(arguments: argparse.Namespace) -> tuple[bytes, str, str, str]:
    """The model as ONNX, and the names of its input, its target and its loss. Layers are dealt out to the IPUs."""
    random = np.random.default_rng(0)
    builder = popart.Builder()
    shape = [arguments.batch_size, arguments.width]
    x = source = builder.addInputTensor(popart.TensorInfo("FLOAT", shape), "input")
    target = builder.addInputTensor(popart.TensorInfo("FLOAT", shape), "target")
    for layer in range(arguments.layers):
        ipu = layer * arguments.ipus // arguments.layers
        with builder.nameScope(f"layer{layer}"), builder.virtualGraph(ipu), builder.pipelineStage(ipu):
            weight = random.normal(0, arguments.width**-0.5, (arguments.width, arguments.width)).astype(np.float32)
            product = builder.aiOnnx.matmul([x, builder.addInitializedInputTensor(weight, "weight")])
            x = builder.aiOnnx.tanh([product])
    last = arguments.ipus - 1
    with builder.virtualGraph(last), builder.pipelineStage(last):
        difference = builder.aiOnnx.sub([x, target])
        loss = builder.aiGraphcore.identityloss(
            [builder.aiOnnx.mul([difference, difference])], popart.ReductionType.Mean, debugContext="loss"
        )
    return builder.getModelProto(), source, target, loss


def main() -> None:
    parser = argparse.ArgumentParser(description="A pipelined model in PopART")
    parser.add_argument("--ipus", type=int, default=4, help="IPUs and pipeline stages (default: 4)")
    parser.add_argument("--layers", type=int, default=8, help="layers, dealt out to the IPUs (default: 8)")
    parser.add_argument("--width", type=int, default=64, help="features (default: 64)")
    parser.add_argument("--batch-size", type=int, default=4, help="samples in a micro-batch (default: 4)")
    parser.add_argument("--accumulation", type=int, default=8, help="micro-batches in an update (default: 8)")
    parser.add_argument("--steps", type=int, default=20, help="weight updates (default: 20)")
    arguments = parser.parse_args()

    model, source, target, loss = build_model(arguments)
    options = popart.SessionOptions()
    options.enableGradientAccumulation = True
    options.accumulationFactor = arguments.accumulation
    options.accumulationAndReplicationReductionType = popart.ReductionType.Mean
    options.enablePipelining = arguments.ipus > 1
    options.virtualGraphMode = popart.VirtualGraphMode.Manual if arguments.ipus > 1 else popart.VirtualGraphMode.Off
    session = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(1, {loss: popart.AnchorReturnType("All")}),
        loss=loss,
        optimizer=popart.SGD({"defaultLearningRate": (2.0, True)}),
        deviceInfo=popart.DeviceManager().acquireAvailableDevice(arguments.ipus),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    random = np.random.default_rng(1)
    rotation = np.linalg.qr(random.normal(size=(arguments.width, arguments.width)))[0]
    for step in range(arguments.steps):
        x = random.normal(0, 0.5, (arguments.accumulation, arguments.batch_size, arguments.width)).astype(np.float32)
        data = {source: x, target: np.tanh(x @ rotation).astype(np.float32)}
        session.run(popart.PyStepIO(data, anchors))
        if (step + 1) % 5 == 0:
            print(f"Step {step + 1}: loss {anchors[loss].mean():.4f}")


if __name__ == "__main__":
    main()
