"""Models from their specs, on the meta device, with the inputs of one micro-batch.

In: a `ModelSpec` and a batch. Out: a module and its inputs. Sizes that a row does not state are those of the paper or
of the vendor's public example of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from openipu.models.graphs import GraphTransformer, MessageNetwork, SampledGraph
from openipu.models.images.detection import GridDetector, GridShape
from openipu.models.images.mobile import SECOND, THIRD, MobileNetwork
from openipu.models.images.networks import EfficientNetwork, Make, ResidualNetwork, SmallNetwork, Unet
from openipu.models.images.pictures import PictureDecoder, PictureShape
from openipu.models.images.regions import RegionDetector, RegionShape
from openipu.models.images.swin import SwinShape, SwinTransformer
from openipu.models.losses import WithClassLoss, WithMixedImages, WithPixelLoss, WithTeacher
from openipu.models.smaller import SMALLER
from openipu.models.sound.speech import Conformer, ConformerShape, Transducer
from openipu.models.sound.writers import Writer, WriterShape
from openipu.models.spec import BASE, LARGE, SMALL, Built, Inputs, ModelSpec, count_inputs, count_labels
from openipu.models.tables import DeepRecommender, WideAndDeep
from openipu.models.text.encoders import EncoderShape, Gelu, ImageEncoder, PairEncoder, TokenEncoder
from openipu.models.text.language import build_bert, build_decoder

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


def _build_mobilenet(spec: ModelSpec, batch: int) -> Built:
    model = MobileNetwork(Make(spec.form, spec.training), THIRD if spec.size == "v3" else SECOND)
    return _label(spec, model, batch, (_make_images(spec, batch),))


DETECTED = 32  # things of an image, at most


def _build_grid_detector(spec: ModelSpec, batch: int) -> Built:
    model = GridDetector(Make(spec.form, spec.training), GridShape(crossing=spec.size == "v4"))
    images = _make_images(spec, batch)
    if not spec.training:
        return model, (images,)
    cells = count_labels(batch, DETECTED)
    return model, (images, cells, torch.empty(batch, DETECTED, 4), cells)


def _build_region_detector(spec: ModelSpec, batch: int) -> Built:
    model = RegionDetector(Make(spec.form, spec.training), RegionShape(spec.pixels))
    images = _make_images(spec, batch)
    if not spec.training:
        return model, (images,)
    return model, (images, torch.empty(batch, DETECTED, 4), count_labels(batch, DETECTED))


def _build_unet(spec: ModelSpec, batch: int) -> Built:
    images = _make_images(spec, batch, 1)
    industrial = spec.size == "industrial"
    model = Unet(spec.form, width=32, padded=True) if industrial else Unet(spec.form)
    if not spec.training:
        return model, (images,)
    side = spec.pixels if industrial else 388
    return WithPixelLoss(model), (images, count_labels(batch, side, side))


def _build_small_network(spec: ModelSpec, batch: int) -> Built:
    return _label(spec, SmallNetwork(spec.form), batch, (_make_images(spec, batch, 1),))


def _build_vit(spec: ModelSpec, batch: int) -> Built:
    sizes = {"small": SMALL, "large": LARGE}.get(spec.size, BASE)
    mixed = spec.training and bool(spec.detail("mixed_images", 0))
    shape = EncoderShape(
        **sizes,
        norm_first=True,
        dropout=0.1 if spec.training else 0.0,
        attention_dropout=bool(spec.detail("attention_dropout", 1)),
        fused_attention=bool(spec.detail("fused_attention", 0)),
        padded_attention=bool(spec.detail("padded_attention", 0)),
        gelu=spec.gelu,
        separate=True,
        inner_dropout=mixed,
    )
    model = ImageEncoder(shape, spec.form, patch=16, classes=1000, pixels=spec.pixels)
    images = _make_images(spec, batch)
    if mixed:
        labels, share = count_labels(batch), torch.empty(batch, 1, 1, 1, dtype=spec.form.dtype)
        return WithMixedImages(model, spec.form.dtype), (images.to(torch.uint8), labels, share)
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
    alone = spec.size == "text"  # Stable Diffusion's, which is that of the large CLIP
    text_shape = EncoderShape(
        **(BASE if alone else {"layers": 12, "hidden": 512, "heads": 8, "feed_forward": 2048}),
        vocabulary=49408,
        norm_first=True,
        gelu=Gelu.QUICK,
        separate=True,
        causal=True,
    )
    text = TokenEncoder(text_shape, spec.form)
    if alone:
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
    padded = bool(spec.detail("padded_attention", 0))
    model = SwinTransformer(replace(_SWIN_SHAPES[size], gelu=spec.gelu, padded_attention=padded), spec.form)
    images = _make_images(spec, batch)
    return model, ((images, torch.empty(batch, dtype=torch.long)) if spec.training else (images,))


_SERVED_CONFORMER = ConformerShape(12, 256, 4, features=64, kernel=15, folded=True)
_SPOKEN_CHARACTERS, _SPOKEN_WORDS = 4233, 48  # of AISHELL, in the vendor's public example
_SPOKEN_DROPOUT = 0.1


def _build_conformer(spec: ModelSpec, batch: int) -> Built:
    """In training the encoder and the decoder of the vendor's public example, which follows WeNet."""
    shape = _SERVED_CONFORMER
    if spec.training:
        shape = ConformerShape(12, 256, 4, kernel=15, feed_forward=8, dropout=_SPOKEN_DROPOUT)
    frames = torch.empty(batch, spec.length, shape.features, dtype=spec.form.dtype)
    if not spec.training:
        return Conformer(shape, spec.form), (frames,)
    sizes = WriterShape(6, 256, 4, 2048, _SPOKEN_CHARACTERS, _SPOKEN_WORDS, _SPOKEN_DROPOUT)
    writer = Writer(sizes, spec.form)
    model = Conformer(shape, spec.form, classes=_SPOKEN_CHARACTERS, writer=writer)
    heard = torch.empty(batch, -(-spec.length // 4), dtype=torch.long)
    filled = torch.empty(heard.shape, dtype=spec.form.dtype)
    return model, (frames, heard, count_inputs(batch, _SPOKEN_WORDS), filled)


def _build_picture_decoder(spec: ModelSpec, batch: int) -> Built:
    shape = PictureShape()
    images = torch.empty(batch, 3, 256, 256, dtype=spec.form.dtype)
    return PictureDecoder(shape, spec.form), (count_inputs(batch, shape.words), images)


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


def _build_message_network(spec: ModelSpec, batch: int) -> Built:
    """Molecules of 32 atoms and 64 bonds, each bond in both directions."""
    nodes = torch.empty(batch, 32, 64, dtype=spec.form.dtype)
    edges = torch.empty(batch, 128, 32, dtype=spec.form.dtype)
    model = MessageNetwork(spec.form)
    return model, (nodes, edges, count_labels(batch, 128), count_labels(batch, 128), torch.empty(batch))


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
    "picture decoder": _build_picture_decoder,
    "graph transformer": _build_graph_transformer,
    "sampled graph": _build_sampled_graph,
    "mobilenet": _build_mobilenet,
    "grid detector": _build_grid_detector,
    "region detector": _build_region_detector,
    "message network": _build_message_network,
    **SMALLER,
}
