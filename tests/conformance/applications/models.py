"""What only an application's own packages can write: models from configurations instead of a hub, and videos.

In: `python models.py KIND FOLDER`, run by the application's Python. Out: for a model, with random weights, the files
that `from_pretrained(FOLDER)` reads.
"""

from __future__ import annotations

import json
import string
import sys
from pathlib import Path

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write_words(place: Path, size: int) -> None:
    """A WordPiece vocabulary: special tokens, letters, letters inside words, and made-up words up to `size`."""
    letters = string.ascii_lowercase + string.digits + string.punctuation
    words = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    words += [f"word{number}" for number in range(size - len(words))]
    (place / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (place / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": 512}))


def make_distilbert(place: Path) -> None:
    from transformers import DistilBertConfig, DistilBertModel

    config = DistilBertConfig(n_layers=1, dim=768, n_heads=12, hidden_dim=256, vocab_size=1000)
    DistilBertModel(config).save_pretrained(place)
    write_words(place, config.vocab_size)


def make_videos(place: Path, *, videos: int = 32, frames: int = 8, size: int = 64) -> None:
    """WebVid: videos of one colour each, and lists with a caption for each; validation takes 1,000 lines."""
    import av
    import numpy as np

    (place / "videos" / "page").mkdir(parents=True)
    (place / "metadata").mkdir()
    lines = []
    for number in range(videos):
        colour = [int(255 * part / videos) for part in (number, videos - number, 0)]
        with av.open(str(place / "videos" / "page" / f"{number}.mp4"), "w") as container:
            stream = container.add_stream("mpeg4", rate=8)
            stream.width, stream.height, stream.pix_fmt = size, size, "yuv420p"
            for _ in range(frames):
                picture = np.full((size, size, 3), colour, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            container.mux(stream.encode(None))
        lines.append(f"{number},page,word{number} word{number + 10}")
    for part, repeats in (("training", 8), ("inference", 1000 // videos + 1)):
        text = "\n".join(["videoid,page_dir,name", *lines * repeats]) + "\n"
        (place / "metadata" / f"results_2M_{part}.csv").write_text(text, encoding="utf-8")


def make_vqgan(place: Path) -> None:
    """A VQGAN that turns an image of 256 x 256 into 16 x 16 numbers: its configuration and a checkpoint."""
    import torch
    from omegaconf import OmegaConf
    from taming.models.vqgan import VQModel

    shape = {"double_z": False, "z_channels": 16, "resolution": 256, "in_channels": 3, "out_ch": 3, "ch": 32}
    depth = {"ch_mult": [1, 1, 1, 1, 1], "num_res_blocks": 1, "attn_resolutions": [16], "dropout": 0.0}
    loss = {"target": "torch.nn.Identity"}
    parameters = {"embed_dim": 16, "n_embed": 64, "ddconfig": {**shape, **depth}, "lossconfig": loss}
    config = OmegaConf.create({"model": {"target": "taming.models.vqgan.VQModel", "params": parameters}})
    OmegaConf.save(config, place / "config.yml")
    torch.save({"state_dict": VQModel(**config.model.params).state_dict()}, place / "model.ckpt")


def make_pictures(place: Path, *, pictures: int = 256) -> None:
    """CIFAR-10 as the hub has it: Parquet with a picture and its class in each row. Classes differ in colour."""
    import datasets
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(7)
    classes = [number % 10 for number in range(pictures)]
    noise = [generator.normal((25 * kind, 255 - 25 * kind, 128), 20, (32, 32, 3)) for kind in classes]
    images = [Image.fromarray(np.clip(values, 0, 255).astype(np.uint8)) for values in noise]
    kinds = datasets.Features({"img": datasets.Image(), "label": datasets.Value("int64")})
    rows = datasets.Dataset.from_dict({"img": images, "label": classes}, features=kinds)
    for part in ("train", "test"):
        rows.to_parquet(str(place / f"{part}.parquet"))


def make_sentences(place: Path, *, sentences: int = 64, length: int = 32, masked: int = 5, words: int = 16) -> None:
    """BERT's records with a static mask: masked words first, then the rest; a sentence repeats few words."""
    import numpy as np

    import tensorflow as tf

    generator = np.random.default_rng(7)
    with tf.io.TFRecordWriter(str(place / "sentences.tfrecord")) as writer:
        for number in range(sentences):
            labels = [5 + (number + step) % words for step in range(masked)]
            rest = [5 + (number + step) % words for step in range(masked, length)]
            numbers = {
                "input_ids": [103] * masked + rest,
                "input_position": [*range(length)],
                "segment_ids": [0] * length,
                "mask_padding_index": [masked],
                "seq_padding_index": [length],
                "masked_labels": labels,
                "next_sentence_labels": [int(generator.integers(2))],
            }
            entries = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in numbers.items()
            }
            weights = tf.train.FloatList(value=[1.0] * masked)
            entries["masked_lm_weights"] = tf.train.Feature(float_list=weights)
            writer.write(tf.train.Example(features=tf.train.Features(feature=entries)).SerializeToString())


MODELS = {
    "sentences": make_sentences,
    "distilbert": make_distilbert,
    "videos": make_videos,
    "vqgan": make_vqgan,
    "pictures": make_pictures,
}

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    MODELS[sys.argv[1]](folder)
