"""Import a ResNet-50 from an ONNX file into PopART and compare its scores with PyTorch's.

The network has random weights, so that nothing is downloaded: it is built in PyTorch and exported by `torch.onnx`.
Run it with `python examples/popart/imported_resnet.py`; `--help` lists the options.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

import popart
from openipu.models.images.networks import Make, ResidualNetwork
from openipu.models.layers import Format


def main() -> None:
    parser = argparse.ArgumentParser(description="An imported residual network in PopART")
    parser.add_argument("--blocks", type=int, nargs=4, default=[3, 4, 6, 3], help="blocks of each group (3 4 6 3)")
    parser.add_argument("--image-size", type=int, default=224, help="pixels of a side (default: 224)")
    parser.add_argument("--batch-size", type=int, default=1, help="images in a batch (default: 1)")
    parser.add_argument("--batches-per-step", type=int, default=2, help="batches in one run (default: 2)")
    arguments = parser.parse_args()
    torch.manual_seed(0)

    network = ResidualNetwork(Make(Format.FLOAT32, training=True), arguments.blocks).eval()
    shape = (arguments.batch_size, 3, arguments.image_size, arguments.image_size)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "resnet.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter, about itself
            names = {"input_names": ["images"], "output_names": ["scores"]}
            torch.onnx.export(network, (torch.randn(shape),), file, dynamo=False, opset_version=13, **names)
        session = popart.InferenceSession(
            fnModel=file,
            dataFlow=popart.DataFlow(arguments.batches_per_step, {"scores": popart.AnchorReturnType("All")}),
            deviceInfo=popart.DeviceManager().acquireAvailableDevice(1),
        )
        session.prepareDevice()
        session.weightsFromHost()
    anchors = session.initAnchorArrays()
    images = torch.randn(arguments.batches_per_step, *shape)
    session.run(popart.PyStepIO({"images": images.numpy()}, anchors))
    with torch.no_grad():
        expected = torch.stack([network(batch) for batch in images]).numpy()
    found = anchors["scores"].reshape(expected.shape)
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"Scores of {found.shape[0] * arguments.batch_size} images; largest difference to PyTorch {difference:.1e}")


if __name__ == "__main__":
    main()
