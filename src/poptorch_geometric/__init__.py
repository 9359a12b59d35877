"""PopTorch Geometric's names on openipu: graph neural networks of PyTorch Geometric as IPU programs. Unofficial.

In: PyTorch Geometric's datasets and models. Out: loaders that yield mini-batches of one size, which programs for IPUs
need; and graphs as inputs and outputs of PopTorch's models.
"""

from typing import NoReturn

from poptorch_geometric.collate import make_exclude_keys
from poptorch_geometric.dataloader import FixedSizeDataLoader, FixedSizeStrategy, OverSizeStrategy
from poptorch_geometric.fixed_size_options import FixedSizeOptions
from poptorch_geometric.types import PyGArgsParser, registerCustomArgParsers
from poptorch_geometric.utils import TrainingStepper, set_aggregation_dim_size

__version__ = "3.4.0"  # the version of the interface that is implemented

__all__ = [
    "FixedSizeDataLoader",
    "FixedSizeOptions",
    "FixedSizeStrategy",
    "OverSizeStrategy",
    "PyGArgsParser",
    "TrainingStepper",
    "__version__",
    "make_exclude_keys",
    "registerCustomArgParsers",
    "set_aggregation_dim_size",
]

registerCustomArgParsers()

_REPLACED = {  # names of earlier releases: what took their place in this one
    "CustomFixedSizeDataLoader": "FixedSizeDataLoader",
    "FixedBatchSampler": "poptorch_geometric.stream_packing_sampler.StreamPackingSampler",
    "FixedSizeClusterDataLoader": "poptorch_geometric.cluster_loader.FixedSizeClusterLoader",
    "TorchDataLoaderMeta": "FixedSizeDataLoader",
}


def __getattr__(name: str) -> NoReturn:
    if name in _REPLACED:
        raise AttributeError(
            f"poptorch_geometric.{name} is a name of an earlier release. This is the interface of {__version__}, which "
            f"has {_REPLACED[name]} in its place."
        )
    raise AttributeError(f"module 'poptorch_geometric' has no attribute {name!r}")
