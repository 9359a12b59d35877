"""Tell upright from lying bars, with ViT on two IPUs.

python examples/optimum/image_classification.py
"""

from __future__ import annotations

from collections.abc import Sequence

from generated import make_pictures, read_arguments, train_and_evaluate
from transformers import ViTConfig, ViTForImageClassification

from optimum.graphcore import IPUConfig, IPUTrainer


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    args = read_arguments(argv, "image_classification", num_train_epochs=8.0, warmup_steps=10)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        image_size=16,
        patch_size=4,
        num_labels=3,
        problem_type="single_label_classification",
    )
    trainer = IPUTrainer(
        ViTForImageClassification(config),
        IPUConfig(layers_per_ipu=[1, 1]),
        args,
        train_dataset=make_pictures(384),
        eval_dataset=make_pictures(48, seed=1),
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    return train_and_evaluate(trainer)


if __name__ == "__main__":
    main()
