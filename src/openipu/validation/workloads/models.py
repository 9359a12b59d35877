"""Models from their specs, on the meta device, with the inputs of one micro-batch.

In: a `ModelSpec` and a batch. Out: a module and its inputs. Sizes that a row does not state are those of the paper or
of the vendor's public example of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from openipu.validation.workloads.encoders import EncoderShape, Gelu, ImageEncoder, PairEncoder, TokenEncoder
from openipu.validation.workloads.graphs import GraphTransformer, SampledGraph
from openipu.validation.workloads.language import build_bert, build_decoder
from openipu.validation.workloads.losses import WithClassLoss, WithPixelLoss, WithTeacher
from openipu.validation.workloads.spec import BASE, LARGE, SMALL, Built, Inputs, ModelSpec, count_inputs, count_labels
from openipu.validation.workloads.speech import Conformer, ConformerShape, Transducer
from openipu.validation.workloads.swin import SwinShape, SwinTransformer
from openipu.validation.workloads.tables import DeepRecommender, WideAndDeep
from openipu.validation.workloads.vision import EfficientNetwork, Make, ResidualNetwork, SmallNetwork, Unet

Builder = Callable[[ModelSpec, int], Built]


def build_model(spec: ModelSpec, batch: int) -> Built:
    """The module, and inputs of `batch` samples, all on the meta device."""
    with torch.device("meta"):
        model, inputs = BUILDERS[spec.kind](spec, batch)
    return model.train(spec.training), inputs


def _label(spec: ModelSpec, model: nn.Module, batch: int, inputs: Inputs) -> Built:
    """A classifier; in training with its loss."""
    if not spec.training:
        return model, inputs
    return WithClassLoss(model), (*inputs, torch.empty(batch, dtype=torch.long))


def _make_images(spec: ModelSpec, batch: int, channels: int = 3) -> Tensor:
    return torch.empty(batch, channels, spec.pixels, spec.pixels, dtype=spec.form.dtype)


def _build_resnet(spec: ModelSpec, batch: int) -> Built:
    blocks = {"50": (3, 4, 6, 3), "101": (3, 4, 23, 3), "152": (3, 8, 36, 3)}[spec.size or "50"]
    model = ResidualNetwork(Make(spec.form, spec.training), blocks, edge_form=spec.edge_form)
    return _label(spec, model, batch, (_make_images(spec, batch),))


def _build_resnext(spec: ModelSpec, batch: int) -> Built:
    blocks = (3, 4, 23, 3) if spec.size == "101" else (3, 4, 6, 3)
    model = ResidualNetwork(Make(spec.form, spec.training), blocks, groups=32, group_width=4)
    return _label(spec, model, batch, (_make_images(spec, batch),))


# Width and depth factors and image sizes of Tan and Le 2019.
_EFFICIENT_SIZES = {"b0": (1.0, 1.0, 224), "b4": (1.4, 1.8, 380), "b5": (1.6, 2.2, 456)}


def _build_efficientnet(spec: ModelSpec, batch: int) -> Built:
    width, depth, _ = _EFFICIENT_SIZES[spec.size or "b0"]
    group = spec.detail("group_width", 1)
    make = Make(spec.form, spec.training, norm_groups=4)
    model = EfficientNetwork(make, width=width, depth=depth, group_width=group, expansion=4 if group > 1 else 6)
    return _label(spec, model, batch, (_make_images(spec, batch),))


def _build_unet(spec: ModelSpec, batch: int) -> Built:
    model = Unet(spec.form)
    images = _make_images(spec, batch, 1)
    return WithPixelLoss(model), (images, torch.empty(batch, 388, 388, dtype=torch.long))


def _build_small_network(spec: ModelSpec, batch: int) -> Built:
    return _label(spec, SmallNetwork(spec.form), batch, (_make_images(spec, batch, 1),))


def _build_vit(spec: ModelSpec, batch: int) -> Built:
    sizes = {"small": SMALL, "large": LARGE}.get(spec.size, BASE)
    shape = EncoderShape(**sizes, norm_first=True, dropout=0.1 if spec.training else 0.0, separate=True)
    model = ImageEncoder(shape, spec.form, patch=16, classes=1000, pixels=spec.pixels)
    images = _make_images(spec, batch)
    return model, ((images, torch.empty(batch, dtype=torch.long)) if spec.training else (images,))


def _build_dino(spec: ModelSpec, batch: int) -> Built:
    """A student that sees two large and eight small crops of each image, a teacher that sees the large ones."""
    shape = EncoderShape(**SMALL, norm_first=True)
    student = ImageEncoder(shape, spec.form, patch=16, classes=4096)
    teacher = ImageEncoder(shape, spec.form, patch=16, classes=4096)
    large = torch.empty(2 * batch, 3, 224, 224, dtype=spec.form.dtype)
    small = torch.empty(8 * batch, 3, 96, 96, dtype=spec.form.dtype)
    return WithTeacher(student, teacher), (large, small)


ZERO_SHOT_TEXTS = 100  # classes that an image is compared with, each a text


def _build_clip(spec: ModelSpec, batch: int) -> Built:
    text_shape = EncoderShape(
        12, 512, 8, 2048, vocabulary=49408, norm_first=True, gelu=Gelu.QUICK, separate=True, causal=True
    )
    text = TokenEncoder(text_shape, spec.form)
    if spec.size == "text":
        return text, (count_inputs(batch, 77),)
    shape = EncoderShape(**BASE, norm_first=True, gelu=Gelu.QUICK, separate=True)
    image = ImageEncoder(shape, spec.form, patch=32, classes=512)
    return PairEncoder(image, text, spec.form, joint=512), (
        _make_images(spec, batch),
        count_inputs(ZERO_SHOT_TEXTS, 77),
    )


_SWIN_SHAPES = {
    "tiny": SwinShape(96, (2, 2, 6, 2), (3, 6, 12, 24)),
    "base": SwinShape(128, (2, 2, 18, 2), (4, 8, 16, 32)),
    "large": SwinShape(192, (2, 2, 18, 2), (6, 12, 24, 48)),
    "large 384": SwinShape(192, (2, 2, 18, 2), (6, 12, 24, 48), window=12, pixels=384),
}


def _build_swin(spec: ModelSpec, batch: int) -> Built:
    size = f"{spec.size} {spec.pixels}" if spec.pixels != 224 else spec.size
    model = SwinTransformer(_SWIN_SHAPES[size], spec.form)
    images = _make_images(spec, batch)
    return model, ((images, torch.empty(batch, dtype=torch.long)) if spec.training else (images,))


def _build_conformer(spec: ModelSpec, batch: int) -> Built:
    medium = ConformerShape(16, 256, 4)
    small = ConformerShape(12, 256, 4, features=64, kernel=15)
    shape = medium if spec.training else small
    model = Conformer(shape, spec.form, classes=5000 if spec.training else 0)
    frames = torch.empty(batch, spec.length, shape.features, dtype=spec.form.dtype)
    if not spec.training:
        return model, (frames,)
    return model, (frames, torch.empty(batch, -(-spec.length // 4), dtype=torch.long))


def _build_transducer(spec: ModelSpec, batch: int) -> Built:
    frames = torch.empty(batch, spec.length, 240, dtype=spec.form.dtype)
    return Transducer(spec.form), (frames, count_inputs(batch, 80))


def _build_wide_and_deep(spec: ModelSpec, batch: int) -> Built:
    return WideAndDeep(spec.form), (torch.empty(batch, 13, dtype=spec.form.dtype), count_inputs(26 * batch, 2))


def _build_dlrm(spec: ModelSpec, batch: int) -> Built:
    model = DeepRecommender(spec.form, parameters=spec.detail("embedding_params", 10_000_000))
    inputs: Inputs = (torch.empty(batch, 13, dtype=spec.form.dtype), count_inputs(batch, 26))
    return model, ((*inputs, torch.empty(batch)) if spec.training else inputs)


def _build_graph_transformer(spec: ModelSpec, batch: int) -> Built:
    """Packs of 60 nodes and 120 edges hold about three molecules of 14 atoms."""
    edges = 120 * batch
    nodes = torch.empty(batch, 60, 64, dtype=spec.form.dtype)
    described = torch.empty(edges, 32, dtype=spec.form.dtype)
    starts, ends = torch.empty(edges, dtype=torch.long), torch.empty(edges, dtype=torch.long)
    return GraphTransformer(spec.form), (nodes, described, starts, ends, torch.empty(batch, 1))


def _build_sampled_graph(spec: ModelSpec, batch: int) -> Built:
    near = torch.empty(batch, 10, 602, dtype=spec.form.dtype)
    far = torch.empty(batch, 10, 25, 602, dtype=spec.form.dtype)
    return SampledGraph(spec.form), (near, far, count_labels(batch))


BUILDERS: Mapping[str, Builder] = {
    "resnet": _build_resnet,
    "resnext": _build_resnext,
    "efficientnet": _build_efficientnet,
    "unet": _build_unet,
    "small network": _build_small_network,
    "bert": build_bert,
    "vit": _build_vit,
    "dino": _build_dino,
    "clip": _build_clip,
    "swin": _build_swin,
    "conformer": _build_conformer,
    "transducer": _build_transducer,
    "wide and deep": _build_wide_and_deep,
    "dlrm": _build_dlrm,
    "decoder": build_decoder,
    "graph transformer": _build_graph_transformer,
    "sampled graph": _build_sampled_graph,
}
