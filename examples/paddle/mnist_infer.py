"""Recognises the digit of an image on an IPU, with the model that mnist_train.py saved.

python examples/paddle/mnist_infer.py
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from PIL import Image

import openipu_paddle  # noqa: F401 (puts IPUs into Paddle)
from paddle import inference

HERE = Path(__file__).parent
IMAGE = HERE / "image" / "infer_3.png"


def read_image(path: Path) -> np.ndarray:
    """A grey image as the model was trained on: dark ground, from -1 to 1."""
    pixels = np.asarray(Image.open(path).convert("L").resize((28, 28)), dtype="float32")
    return (pixels / 127.5 - 1).reshape(1, 1, 28, 28)


def main() -> None:
    model = HERE / "model" / "mnist"
    config = inference.Config(f"{model}.pdmodel", f"{model}.pdiparams")
    config.enable_ipu()
    predictor = inference.create_predictor(config)
    handle = predictor.get_input_handle(predictor.get_input_names()[0])
    handle.copy_from_cpu(read_image(IMAGE))
    predictor.run()
    result = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
    print(f"Inference result of ./{os.path.basename(IMAGE)} is: ", int(np.argmax(result)))


if __name__ == "__main__":
    main()
