"""What `from tensorflow.python import ipu` shows."""

from openipu_tensorflow import keras
from openipu_tensorflow.estimator import offer_estimators
from openipu_tensorflow.ipu import (
    config,
    data,
    dataset_benchmark,
    distributed,
    eager,
    gradient_accumulation,
    horovod,
    ipu_compiler,
    ipu_estimator,
    ipu_infeed_queue,
    ipu_multi_worker_strategy,
    ipu_outfeed_queue,
    ipu_pipeline_estimator,
    ipu_run_config,
    ipu_session_run_hooks,
    ipu_strategy,
    loops,
    ops,
    optimizers,
    scopes,
    serving,
    sharding,
    utils,
)
from openipu_tensorflow.ipu.clusters.compiling import install_compile
from openipu_tensorflow.ipu.clusters.sessions import install_sessions, leave_to_python
from openipu_tensorflow.ipu.ops import (
    all_to_all_op,
    application_compile_op,
    control_flow_ops,
    cross_replica_ops,
    custom_ops,
    embedded_runtime,
    embedding_ops,
    f8_ops,
    functional_ops,
    grad_util_ops,
    image_ops,
    internal_ops,
    math_ops,
    nn_ops,
    normalization_ops,
    pipelining_ops,
    rand_ops,
    reduce_scatter_op,
    replication_ops,
    slicing_ops,
    statistics_ops,
    within_replica_ops,
)
from openipu_tensorflow.ipu.optimizers import (
    cross_replica_optimizer,
    gradient_accumulation_optimizer,
    ipu_optimizer,
    map_gradient_optimizer,
    sharded_optimizer,
)
from openipu_tensorflow.tf1 import restore_layers, take_types_of_inputs


def __getattr__(name: str) -> object:
    """Layers of older SDKs are loaded when they are asked for: the addons' own need what is here."""
    if name != "layers":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("openipu_tensorflow.keras.layers")


outlined_function = functional_ops.outlined_function
install_sessions()
install_compile()
leave_to_python()
offer_estimators()
restore_layers()
take_types_of_inputs()
sharding.enable_sharded_gradient_tape()

__all__ = [
    "all_to_all_op",
    "application_compile_op",
    "config",
    "control_flow_ops",
    "cross_replica_ops",
    "cross_replica_optimizer",
    "custom_ops",
    "data",
    "dataset_benchmark",
    "distributed",
    "eager",
    "embedded_runtime",
    "embedding_ops",
    "f8_ops",
    "functional_ops",
    "grad_util_ops",
    "gradient_accumulation",
    "gradient_accumulation_optimizer",
    "horovod",
    "image_ops",
    "internal_ops",
    "ipu_compiler",
    "ipu_estimator",
    "ipu_infeed_queue",
    "ipu_multi_worker_strategy",
    "ipu_optimizer",
    "ipu_outfeed_queue",
    "ipu_pipeline_estimator",
    "ipu_run_config",
    "ipu_session_run_hooks",
    "ipu_strategy",
    "keras",
    "layers",
    "loops",
    "map_gradient_optimizer",
    "math_ops",
    "nn_ops",
    "normalization_ops",
    "ops",
    "optimizers",
    "outlined_function",
    "pipelining_ops",
    "rand_ops",
    "reduce_scatter_op",
    "replication_ops",
    "scopes",
    "serving",
    "sharded_optimizer",
    "sharding",
    "slicing_ops",
    "statistics_ops",
    "utils",
    "within_replica_ops",
]
