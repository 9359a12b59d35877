"""Which layer runs on which IPU.

In: an `IPUConfig` and the number of layers of a model. Out: one IPU number for each layer, or two configurations, one
for the encoder's IPUs and one for the decoder's. A configuration that does not suit the model is an
`IncompatibleIPUConfigError`.
"""

from __future__ import annotations

import copy
from collections.abc import Sized
from itertools import accumulate

from optimum.graphcore.ipu_configuration import AUTO, IncompatibleIPUConfigError, IPUConfig

WILDCARD = -1  # as many layers as are left over


def get_layer_ipu(ipu_config: IPUConfig, target_number_of_layers: int | Sized | None = None) -> list[int]:
    """The IPU of each layer. Without a number of layers, `layers_per_ipu` is taken as it stands."""
    counts = _expand_layers_per_ipu_wildcard(ipu_config, target_number_of_layers)
    return [ipu for ipu, count in enumerate(counts) for _ in range(count)]


def _expand_layers_per_ipu_wildcard(
    ipu_config: IPUConfig, target_number_of_layers: int | Sized | None = None
) -> list[int]:
    """`layers_per_ipu` with numbers in place of wildcards: [-1, -1] for 9 layers is [4, 5]."""
    counts_name = ipu_config._get_managed_attr_mode_name("layers_per_ipu")
    ipus_name = ipu_config._get_managed_attr_mode_name("ipus_per_replica")
    if ipu_config._layers_per_ipu == AUTO:
        raise IncompatibleIPUConfigError(
            f'{counts_name}="{AUTO}" is not settled yet: it depends on the model and the shapes. The trainer settles '
            "it from its first batch; elsewhere call IPUConfig.auto(model, example_inputs=…)."
        )
    counts: list[int] = list(ipu_config._layers_per_ipu)
    ipus: int = ipu_config._ipus_per_replica
    if any(not isinstance(count, int) or count < WILDCARD for count in counts):
        raise IncompatibleIPUConfigError(
            f"Invalid values in {counts_name}. {counts_name}={counts}: give a number of layers for each IPU, or -1."
        )
    if ipus < 1:
        raise IncompatibleIPUConfigError(
            f"Invalid value for {ipus_name}. {ipus_name}={ipus}: a replica needs at least one IPU."
        )
    if target_number_of_layers is None:
        return counts
    layers = target_number_of_layers if isinstance(target_number_of_layers, int) else len(target_number_of_layers)
    if ipus == 1:
        return [layers]
    if counts == [WILDCARD]:
        counts = [WILDCARD] * ipus
    if len(counts) != ipus:
        raise IncompatibleIPUConfigError(
            f"{counts_name} has a non-default value set, but its length does not match {ipus_name}: "
            f"{counts_name}={counts}, {ipus_name}={ipus}. Give one number for each IPU."
        )
    wildcards = [ipu for ipu, count in enumerate(counts) if count == WILDCARD]
    left_over = layers - sum(count for count in counts if count != WILDCARD)
    if left_over < 0 or (left_over and not wildcards):
        raise IncompatibleIPUConfigError(
            f"{counts_name} does not define the correct number of layers for the current model. The current IPU Config "
            f"specifies IPU assignments for {layers - left_over} layers but there are {layers} layers in the model. "
            f"{counts_name}={counts}. Make the numbers add up to {layers}, or write -1 for the IPUs that are to share "
            "the rest."
        )
    for position, ipu in enumerate(wildcards):
        is_last = position == len(wildcards) - 1
        counts[ipu] = left_over // len(wildcards) + (left_over % len(wildcards) if is_last else 0)
    return counts


def split_encoder_decoder_ipu_config(
    ipu_config: IPUConfig, num_encoder_layers: int, num_decoder_layers: int
) -> tuple[IPUConfig, IPUConfig]:
    """A configuration for the encoder's IPUs and one for the decoder's. The encoder gets a power of two of them."""
    counts_name = ipu_config._get_managed_attr_mode_name("layers_per_ipu")
    ipus_name = ipu_config._get_managed_attr_mode_name("ipus_per_replica")
    if ipu_config._ipus_per_replica < 2:
        raise IncompatibleIPUConfigError(
            f"Need {ipus_name} to be at least 2 to split ipu_config into encoder and decoder configs, "
            f"but {ipus_name}={ipu_config._ipus_per_replica}."
        )
    counts = _expand_layers_per_ipu_wildcard(ipu_config, num_encoder_layers + num_decoder_layers)
    cuts = [
        ipus
        for ipus, layers in enumerate(accumulate(counts), start=1)
        if layers == num_encoder_layers and ipus & (ipus - 1) == 0 and ipus < len(counts)
    ]
    if not cuts:
        raise IncompatibleIPUConfigError(
            f"Unable to find a valid split of ipu_config.{counts_name}={ipu_config._layers_per_ipu} for "
            f"{num_encoder_layers} encoder layers and {num_decoder_layers} decoder layers. Encoder and decoder layers "
            "cannot be on the same IPU, and the encoder needs a number of IPUs that is a power of 2: choose numbers "
            f"that add up to {num_encoder_layers} after 1, 2, 4, … IPUs."
        )
    cut = max(cuts)
    encoder, decoder = copy.deepcopy(ipu_config), copy.deepcopy(ipu_config)
    _give_splits_to_one_side(ipu_config, encoder, decoder, cut, "serialized_embedding_splits_per_ipu")
    _give_splits_to_one_side(ipu_config, encoder, decoder, cut, "serialized_projection_splits_per_ipu")
    for part, own in ((encoder, slice(None, cut)), (decoder, slice(cut, None))):
        part._layers_per_ipu = counts[own]
        part._ipus_per_replica = len(counts[own])
        if isinstance(ipu_config._matmul_proportion, list):
            part._matmul_proportion = ipu_config._matmul_proportion[own]
    return encoder, decoder


def _give_splits_to_one_side(
    whole: IPUConfig, encoder: IPUConfig, decoder: IPUConfig, cut: int, attribute: str
) -> None:
    """Splits of the embedding belong to the encoder's IPUs, those of the projection to the decoder's."""
    splits = getattr(whole, f"_{attribute}")
    if splits is None:
        return
    is_embedding = "embedding" in attribute
    layer, side, other = (
        ("SerializedEmbedding", "encoder", "decoder") if is_embedding else ("SplitProjection", "decoder", "encoder")
    )
    own, foreign = (splits[:cut], splits[cut:]) if is_embedding else (splits[cut:], splits[:cut])
    if sum(foreign):
        name = whole._get_managed_attr_mode_name(attribute)
        raise ValueError(
            f"The `{layer}` must have all splits placed on the {side}, but {name}={splits} results in {foreign} being "
            f"placed on the {other}. The encoder has IPUs 0 to {cut - 1}."
        )
    owner, loser = (encoder, decoder) if is_embedding else (decoder, encoder)
    setattr(owner, f"_{attribute}", own)
    setattr(loser, f"_{attribute}", None)
