"""What `from tensorflow.python import ipu` shows."""

from openipu_tensorflow.ipu import (
    config,
    gradient_accumulation,
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    ops,
    optimizers,
    scopes,
    sharding,
    utils,
)
from openipu_tensorflow.ipu.clusters.sessions import install_sessions
from openipu_tensorflow.ipu.ops import (
    all_to_all_op,
    control_flow_ops,
    cross_replica_ops,
    custom_ops,
    embedding_ops,
    functional_ops,
    image_ops,
    internal_ops,
    math_ops,
    nn_ops,
    normalization_ops,
    pipelining_ops,
    rand_ops,
    reduce_scatter_op,
    replication_ops,
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

install_sessions()
