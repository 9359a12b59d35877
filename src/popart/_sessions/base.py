"""What both kinds of session share: a model, compiled for a device, and run step by step.

In: an ONNX model, a data flow, options. Out: anchors of each step, weights. The work is done below:
`openipu.capture` makes the program, `openipu.session` plans and compiles it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openipu.explore import make_advisor
from openipu.graph import Program, RunOptions, Tap
from openipu.session import Compiled, FrontEnd, compile_program
from popart._dataflow import DataFlow, InputShapeInfo
from popart._device_manager import DeviceInfo
from popart._enumerations.devices import DeviceType
from popart._enumerations.sessions import SyntheticDataMode
from popart._enumerations.tensors import AnchorReturnTypeId
from popart._enumerations.training import ReductionType
from popart._exceptions import popart_exception, translate_errors
from popart._logging import session_log
from popart._options import SessionOptions, check_training
from popart._patterns import Patterns
from popart._prefixes import GRADIENT, UPDATED
from popart._sessions import files
from popart._sessions.checks.gradients import check_forward, check_gradients
from popart._sessions.checks.leftovers import check_recomputation, check_something_left
from popart._sessions.checks.places import check_formats
from popart._sessions.dialect import adapt
from popart._sessions.drawings import draw
from popart._sessions.forward_only import refuse_handle
from popart._sessions.grouping import group_replicas
from popart._sessions.loss_scaling import check_scaling, list_tracked, read_control
from popart._sessions.machine import choose_machine
from popart._sessions.model import SessionModel, capture, list_inputs, load
from popart._sessions.placement import add_restored, check_ipus, check_placement, place_nodes
from popart._sessions.saved_state import part_state
from popart._sessions.stepping import put_scalars, read_call, run_step, shape_anchor
from popart._sessions.streams import Streams
from popart._sessions.translation import MODES, build_run_options, count_replicas, read_engine
from popart._sessions.weights import HostWeights
from popart._stepio import IStepIO
from popart.tensorinfo import TensorInfo

DEFAULT_SEED = 1984
Array = np.ndarray[Any, Any]


class Session:
    """What both kinds of session share."""

    _training = False

    def __init__(
        self,
        fnModel: bytes | str,
        dataFlow: DataFlow,
        deviceInfo: DeviceInfo,
        inputShapeInfo: InputShapeInfo | None,
        patterns: Patterns | None,
        userOptions: SessionOptions | None,
        name: str,
        loss: str = "",
    ) -> None:
        self._source = fnModel
        self._flow = dataFlow
        self._device = deviceInfo
        self._options = (userOptions or SessionOptions())._copy()
        self._name = name
        self._seed = DEFAULT_SEED
        self._compiled: Compiled | None = None
        self._weights_loaded = False
        self._engine_loaded = False
        self._from_file = False  # the program was compiled by another session
        self._has_run = False
        self._streams = Streams()
        self._run_name = ""  # of the last run, for reports
        chosen = patterns or Patterns()
        chosen._check()
        check_training(self._options, self._training)
        if not self._training:
            check_scaling(self._options, None)
        with translate_errors():
            read, self._saved_state = part_state(load(fnModel))
            self._grouping = group_replicas(adapt(read, self._options), self.replicationFactor)
            model = self._grouping.model
            if not self._training and dataFlow.nAnchors() == 0:
                raise popart_exception("User must specify an anchor tensor when doing inference.")
            ipus = max(1, deviceInfo.numIpus // count_replicas(self._options))
            placed = place_nodes(model, self._options, ipus)
            check_placement(placed, self._options, dataFlow, deviceInfo, self._training)
            if loss and self._options.enablePipelining:
                placed = add_restored(placed, dataFlow.anchors())
            check_recomputation(placed, self._options)
            check_forward(placed.graph, chosen)
            if loss:
                asked = [anchor.removeprefix(GRADIENT) for anchor in dataFlow.anchors() if anchor.startswith(GRADIENT)]
                check_gradients(placed.graph, loss, asked, chosen)
            else:
                check_something_left(placed, dataFlow)
            known = inputShapeInfo or InputShapeInfo()
            anchored = {anchor.removeprefix(GRADIENT) for anchor in dataFlow.anchors()}
            inputs = list_inputs(placed, known, self._grouping.shared, anchored)
            self._model: SessionModel = capture(
                placed,
                inputs,
                dataFlow,
                loss=loss,
                describe_optimizer=self._describe_optimizer,
                name=name,
                others=lambda program: {*self._list_scalars(), *self._list_state(program)},
                after_update=self._options.accumulationFactor == 1,
                tracked=list_tracked(self._options),
                replicas=self.replicationFactor,
            )
            self._run_options = self._build_options()
            draw(placed.graph, self._options)
        self._weights = HostWeights(self._model.module, self._grouping.held)

    def _describe_optimizer(self, module: Any) -> Any:
        return None

    def _build_options(self) -> RunOptions:
        taps = tuple(
            Tap(anchor, UPDATED + weight, MODES[self._flow.art(anchor).id()], self._period(anchor))
            for anchor, weight in self._model.updated.items()
        )
        state = self._list_state(self._model.program)
        taps += tuple(
            Tap(anchor, f"State___{state[anchor]}", MODES[self._flow.art(anchor).id()], self._period(anchor))
            for anchor in self._flow.anchors()
            if anchor in state
        )
        control = read_control(self._options, self._model.tracked)
        return build_run_options(
            self._options,
            self._flow,
            self._training,
            self._model.leaves,
            self._seed,
            taps=taps,
            loss_scale_control=control,
            replica_groups=self._grouping.groups,
        )

    def _list_state(self, program: Program) -> Mapping[str, str]:
        """Optimizer state: PopART's names -> openipu's."""
        return {}

    def _period(self, anchor: str) -> int:
        kind = self._flow.art(anchor)
        return kind.rp() if kind.id() is AnchorReturnTypeId.EveryN else 1

    @property
    def dataFlow(self) -> DataFlow:
        """The data flow that the session was made with."""
        return self._flow

    @property
    def replicationFactor(self) -> int:
        """Replicas of this process."""
        return count_replicas(self._options)

    @property
    def accumulationFactor(self) -> int:
        """Micro-batches in one weight update."""
        return int(self._options.accumulationFactor)

    def getInfo(self, id: str) -> TensorInfo:
        """The format and shape of a tensor."""
        found = self._model.describe(id)
        if found is None and id in self._list_scalars():
            return TensorInfo("FLOAT16" if id == "lossScaling_FLOAT16" else "FLOAT", [])
        if found is None:
            raise popart_exception(f"No TensorInfo for tensor with id '{id}': the model has no such tensor.")
        return found

    def getAllTensorIds(self) -> set[str]:
        """Names of all tensors."""
        return {*self._model.module.types, *self._model.onnx.graph.weights, *self._model.leaves}

    def getTensorIds(self) -> set[str]:
        """Names of all tensors."""
        return self.getAllTensorIds()

    def initAnchorArrays(self) -> dict[str, Array]:
        """Arrays for what comes back of a step."""
        arrays = {}
        for name in self._flow.anchors():
            info = self.getInfo(name)
            shape = shape_anchor(self._flow, name, self._run_options, info)
            arrays[name] = np.empty(shape, dtype=info.data_type_lcase())
        return arrays

    def prepareDevice(self, loadEngine: bool = True) -> None:
        """Plan and compile the program, and load it. Once is enough: what is prepared stays as it is."""
        if self._compiled is not None:
            if loadEngine and not self._engine_loaded:
                self.loadEngineAndConnectStreams()
            return
        if self._device.type is DeviceType.Ipu and not self._device.isAttached and not self._device.attach():
            raise popart_exception("Failed to attach to the device: another program holds its IPUs.")
        check_ipus(self._model.onnx, self._options, self._device)
        check_formats(self._model.onnx.graph, self._model.module.types)
        engine = read_engine(self._options)
        directory = engine.report_directory / self._name if engine.wants_profile else None
        with translate_errors():
            self._find_cached()
            self._compiled = compile_program(
                self._model.program,
                options=self._run_options,
                system=choose_machine(self._device),
                profile_directory=directory,
                show_progress=False,
                front_end=FrontEnd(advise=make_advisor("popart")),
                cache_directory=self._choose_cache(),
            )
            self._keep_cached()
        session_log.info("Graph compiled")
        self._weights_loaded = self._engine_loaded = False
        if loadEngine:
            self.loadEngineAndConnectStreams()

    def _choose_cache(self) -> Path | None:
        return files.find_cache(self._options)

    @property
    def _identity(self) -> str:
        return files.identify(self._model.program, self._run_options, self._device, self._options.engineOptions)

    def _find_cached(self) -> None:
        """Say whether the program was compiled before: its plan and native code are then in the store."""
        folder = self._choose_cache()
        if not self._from_file and folder is not None and self._device.type is not DeviceType.Cpu:
            self._from_file = files.matches(folder / f"{self._identity}.popef", self._identity)
        session_log.debug("%s", "Loading serialized PopART executable" if self._from_file else "Starting compilation")

    def _keep_cached(self) -> None:
        folder = self._choose_cache()
        if folder is not None and self._device.type is not DeviceType.Cpu and not self._from_file:
            files.write(folder / f"{self._identity}.popef", self._identity, self._name)

    def compileAndExport(self, filename: str) -> None:
        """Plan and compile the program, and write a file by which other sessions know it again."""
        files.check_savable(self._device)
        self.prepareDevice(loadEngine=False)
        self.saveExecutable(filename)

    def saveExecutable(self, path: str, savePopartMetadata: bool = True, saveVariables: bool = True) -> None:
        """Write a file by which other sessions know the program again."""
        files.check_savable(self._device)
        self._require("saveExecutable")
        files.write(files.choose_path(path), self._identity, self._name)

    def loadExecutable(self, filename: str) -> None:
        """Use what another session compiled: it must have been the same program."""
        with translate_errors():
            if not files.matches(files.choose_path(filename), self._identity):
                raise popart_exception(
                    f"{filename} was not written by a session with this model, data flow and options."
                )
        self._from_file = True

    def loadEngineAndConnectStreams(self) -> None:
        """Load the program."""
        if self._compiled is None:
            raise popart_exception("There is no compiled engine to load: call prepareDevice first.")
        compiled = self._compiled
        if not self._training:
            with translate_errors():
                self._weights.load_into(compiled.executable)
            self._weights_loaded = True
        compiled.executable.random_state = torch.Generator().manual_seed(self._seed).get_state()
        self._engine_loaded = True
        session_log.info("Engine loaded")

    def _require(self, what: str) -> Compiled:
        if self._compiled is None:
            raise popart_exception(f"Session::prepareDevice must be called before Session::{what}.")
        return self._compiled

    def run(self, *args: Any, **kwargs: Any) -> None:
        """Run one step: `run(stepio, debugName)`, or another program, `run(programHandle, stepio, debugName)`."""
        handle, stepio, self._run_name = read_call(args, kwargs)
        if handle:
            self._run_program(handle, stepio)
            return
        compiled = self._require("run")
        if not self._engine_loaded:
            self.loadEngineAndConnectStreams()
        if self._device.type is DeviceType.OfflineIpu:
            raise popart_exception("Offline IPU devices can only be used for compilation.")
        if not self._options.compileEngine:
            raise popart_exception("Cannot run a session that was made with SessionOptions.compileEngine=False.")
        if self._training and not self._weights_loaded and self._weights.values:
            raise popart_exception(
                "Must call weightsFromHost before run as the model has initializers, and the device has none of them."
            )
        options = self._run_options
        stepio = self._streams.around(stepio, options.replicas, {one.name for one in self._model.inputs if one.shared})
        sizes = {entry.name: entry.info.nelms() * entry.count_taken(options) for entry in self._model.inputs}
        places = {
            name: int(np.prod(shape_anchor(self._flow, name, options, self.getInfo(name)), dtype=np.int64))
            for name in self._flow.anchors()
        }
        if self._options.syntheticDataMode is SyntheticDataMode.Off:
            stepio._check(sizes, places, list(self._model.onnx.graph.weights))
        with translate_errors():
            run_step(
                self._model,
                compiled.executable,
                self._flow,
                stepio,
                self._options.syntheticDataMode,
                self._scales(),
                self.getInfo,
            )
            put_scalars(self._list_scalars(), compiled.executable, self._flow, stepio, self.getInfo)
        self._has_run = True

    def _run_program(self, handle: str, stepio: IStepIO) -> None:
        """A program beside the usual one."""
        refuse_handle(handle)

    def _list_scalars(self) -> Mapping[str, float]:
        return {}

    def _scales(self) -> Mapping[str, float]:
        """With a mean over replicas, PopART's gradients begin with their share of the loss."""
        if self.replicationFactor == 1 or self._options.accumulationAndReplicationReductionType is ReductionType.Sum:
            return {}
        share = 1 / self.replicationFactor
        return {name: share for name in self._model.leaves if name.startswith(GRADIENT)}

    def setEngineIsLoaded(self, isLoaded: bool) -> None:
        """Say that the device was loaded by somebody else."""

    def _setDeviceInfo(self, deviceInfo: DeviceInfo) -> None:
        self._device = deviceInfo

    def _getDataFlow(self) -> DataFlow:
        return self._flow

    def _replicationFactor(self) -> int:
        return self.replicationFactor

    def _accumulationFactor(self) -> int:
        return self.accumulationFactor
