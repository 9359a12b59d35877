"""TF1 sessions that know IPUs.

In: `Session.run`. Out: the same results, with what providers give fed to TensorFlow; ops that a script placed on an
IPU device outside of any computation run as programs, too, or do not stop a session, because its placement is soft.
Variables are TensorFlow's, and on the host: their handles say so before a session first sees them, or it would warn of
each at length.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from openipu_tensorflow.ipu.clusters.loose import find_clusters, has_loose_ops, note_loose_op, run_clusters
from openipu_tensorflow.ipu.clusters.providers import find_providers, list_draws, list_needed
from openipu_tensorflow.ipu.configuration.devices import is_ipu_device, strip_job

_MARK = "_openipu_run"
_settled: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # graph -> its version at the last look


def leave_to_python() -> None:
    """AutoGraph rewrites functions of the user's, not those of this package; a second call changes nothing."""
    from tensorflow.python.autograph.core import config, config_lib

    rule = config_lib.DoNotConvert("openipu_tensorflow")
    if all(str(rule) != str(other) for other in config.CONVERSION_RULES):
        config.CONVERSION_RULES = (rule, *config.CONVERSION_RULES)


def install_sessions() -> None:
    """Change the stock session class; a second call changes nothing."""
    from tensorflow.python.client import session as stock

    base = stock.BaseSession
    if hasattr(base.run, _MARK):
        return
    plain_run, plain_init = base.run, base.__init__

    @functools.wraps(plain_init)
    def init(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        plain_init(self, target, graph, _allow_soft_placement(config))

    @functools.wraps(plain_run)
    def run(self: Any, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        settle_ops(self.graph)
        if find_providers(self.graph) is None and not has_loose_ops(self.graph):
            return plain_run(self, fetches, feed_dict, options, run_metadata)
        feeds = dict(feed_dict or {})
        fed = _list_fed(self.graph, feeds)
        with self.graph.as_default():  # a thread of its own has another one
            mapper = stock._FetchMapper.for_fetch(fetches)
        fetched = [self.graph.as_graph_element(one) for one in mapper.unique_fetches()]
        needed = list_needed(self.graph, fetched, fed)
        loose = find_clusters(self.graph, fetched, fed) if not needed else None
        if not needed and loose is None:
            return plain_run(self, fetches, feed_dict, options, run_metadata)
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")

        def run_plainly(wanted: Any, extra: Any = None) -> Any:
            return plain_run(self, wanted, {**feeds, **(extra or {})})

        if loose is not None:
            return mapper.build_results(run_clusters(loose, self, run_plainly, fetched))
        draws = list_draws(self.graph, needed, fed)
        if draws:
            feeds.update(zip(draws, run_plainly(list(draws)), strict=True))
        for provider in needed:
            values = run_plainly(list(provider.inputs)) if provider.inputs else []
            given = provider.provide(self, run_plainly, values)
            feeds.update(zip(provider.outputs, given, strict=True))
        return plain_run(self, fetches, feeds, options, run_metadata)

    setattr(run, _MARK, True)
    base.__init__, base.run = init, run


def settle_ops(graph: Any) -> None:
    """Look at new ops of a graph that are on an IPU device. Handles of variables go to the host, where their values
    are; others that belong to no compilation are noted."""
    done, version = _settled.get(graph, 0), graph.version
    if version == done:
        return
    for place, op in enumerate(graph.get_operations()[done:], done):
        device = op.device
        if "IPU" not in device.upper() or not is_ipu_device(strip_job(device)):
            continue
        if op.type == "VarHandleOp":
            op._set_device("/device:CPU:0")
        else:
            note_loose_op(graph, op, place, strip_job(device))
    _settled[graph] = version


def _allow_soft_placement(config: Any) -> Any:
    from tensorflow.core.protobuf import config_pb2

    made = config_pb2.ConfigProto()
    if config is None:
        made.allow_soft_placement = True
        return made
    if not isinstance(config, config_pb2.ConfigProto):
        return config  # the stock session says what is wrong with it
    made.CopyFrom(config)
    made.allow_soft_placement = True
    return made


def _list_fed(graph: Any, feeds: dict[Any, Any]) -> list[Any]:
    tensors = [key for key in feeds if hasattr(key, "op") or isinstance(key, str)]
    return [graph.as_graph_element(key, allow_tensor=True, allow_operation=False) for key in tensors]
