"""Fine-tune a BERT that comes from an ONNX file: the loss is added with `Builder`, and PopART trains every weight.

The model is made from a configuration, with random weights, and exported by `torch.onnx`, so that nothing is
downloaded. It learns which of two words a sentence holds. Run it with `python examples/popart/bert_finetuning.py`;
`--help` lists the options.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers

import popart

VOCABULARY, FIRST, SECOND = 50, 7, 9


class Classifier(torch.nn.Module):
    """BERT with one output: the scores of two classes."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__()
        configuration = transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=arguments.hidden_size,
            num_hidden_layers=arguments.layers,
            num_attention_heads=arguments.hidden_size // 16,
            intermediate_size=4 * arguments.hidden_size,
            max_position_embeddings=arguments.sequence_length,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            attn_implementation="eager",
        )
        self.bert = transformers.BertForSequenceClassification(configuration)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=tokens).logits


def export_model(arguments: argparse.Namespace) -> bytes:
    """The model as ONNX."""
    model = Classifier(arguments).eval()
    example = torch.ones(arguments.batch_size, arguments.sequence_length, dtype=torch.int32)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        file = Path(folder) / "bert.onnx"
        names = {"input_names": ["tokens"], "output_names": ["scores"]}
        settings = {"dynamo": False, "opset_version": 11, "do_constant_folding": False}  # what `Builder` can extend
        torch.onnx.export(model, (example,), str(file), **settings, **names)
        return file.read_bytes()


def add_loss(model: bytes, batch_size: int) -> tuple[bytes, str, str]:
    """The same model with labels and a loss, and their names."""
    builder = popart.Builder(model)
    labels = builder.addInputTensor(popart.TensorInfo("INT32", [batch_size]), "labels")
    probabilities = builder.aiOnnxOpset11.softmax(["scores"], axis=1)
    loss = builder.aiGraphcore.nllloss([probabilities, labels], popart.ReductionType.Mean, debugContext="loss")
    return builder.getModelProto(), labels, loss


def make_sentences(random: np.random.Generator, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Random words, one of which is the first or the second that matters."""
    words = random.integers(10, VOCABULARY, (count, length))
    labels = random.integers(0, 2, count)
    words[np.arange(count), random.integers(0, length, count)] = np.where(labels == 0, FIRST, SECOND)
    return words.astype(np.int32), labels.astype(np.int32)


def main() -> None:
    parser = argparse.ArgumentParser(description="BERT from an ONNX file, fine-tuned in PopART")
    parser.add_argument("--layers", type=int, default=2, help="layers of the encoder (default: 2)")
    parser.add_argument("--hidden-size", type=int, default=64, help="a multiple of 16 (default: 64)")
    parser.add_argument("--sequence-length", type=int, default=16, help="words in a sentence (default: 16)")
    parser.add_argument("--batch-size", type=int, default=16, help="sentences in a batch (default: 16)")
    parser.add_argument("--batches-per-step", type=int, default=20, help="weight updates in one run (default: 20)")
    parser.add_argument("--steps", type=int, default=10, help="runs (default: 10)")
    arguments = parser.parse_args()
    torch.manual_seed(0)

    model, labels, loss = add_loss(export_model(arguments), arguments.batch_size)
    anchors_wanted = {loss: popart.AnchorReturnType("All"), "scores": popart.AnchorReturnType("All")}
    session = popart.TrainingSession(
        fnModel=model,
        dataFlow=popart.DataFlow(arguments.batches_per_step, anchors_wanted),
        loss=loss,
        optimizer=popart.Adam({"defaultLearningRate": (1e-3, False)}),
        deviceInfo=popart.DeviceManager().acquireAvailableDevice(1),
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    random = np.random.default_rng(0)
    for step in range(arguments.steps):
        count = arguments.batches_per_step * arguments.batch_size
        words, classes = make_sentences(random, count, arguments.sequence_length)
        shape = (arguments.batches_per_step, arguments.batch_size)
        data = {"tokens": words.reshape(*shape, -1), labels: classes.reshape(shape)}
        session.run(popart.PyStepIO(data, anchors))
        right = anchors["scores"].reshape(count, 2).argmax(1) == classes
        print(f"Step {step + 1}: loss {anchors[loss].mean():.3f}, accuracy {100 * right.mean():.0f}%")


if __name__ == "__main__":
    main()
