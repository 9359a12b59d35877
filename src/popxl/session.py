"""Sessions: a program on a device.

In: an `Ir` and a device; for each run arrays for the streams that it loads. Out: arrays of the streams that it stores;
values of variables. The program is compiled when the session is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from popart import DeviceInfo
from popxl._lowering.compiling import CompiledProgram, compile_ir
from popxl._lowering.devices import Attachment, choose_device, count_ipus
from popxl.dtypes import float8_143, float8_152
from popxl.ir import Ir
from popxl.streams import DeviceToHostStream, HostToDeviceStream, Stream
from popxl.tensor import Constant, HostScalarTensor, Variable
from popxl.utils import to_numpy

Array = np.ndarray[Any, Any]
d2hStreamBufferMaps = Mapping[DeviceToHostStream, Array]  # noqa: N816 (popxl's own names)
h2dStreamBufferMaps = Mapping[HostToDeviceStream, HostScalarTensor]  # noqa: N816


class Session:
    """Runs one program. Use it as a context: `with Session(ir, "ipu_model") as session:`."""

    def __init__(self, ir: Ir, device_desc: str | DeviceInfo = "cpu", weights_to_host_on_exit: bool = True) -> None:
        self.ir_ = ir
        self.weights_to_host_on_exit = weights_to_host_on_exit and not ir._has_read_only_memmap
        ir._prepared = True
        ipus = count_ipus(ir)
        self._attachment: Attachment = choose_device(device_desc, ipus, ir.instance_replication_factor)
        self._compiled: CompiledProgram = compile_ir(ir, self._attachment)
        self._was_attached: list[bool] = []
        self._in_sync = True  # the host has the device's values
        if self.is_attached:
            self.weights_from_host()

    @property
    def ir(self) -> Ir:
        """The program."""
        return self.ir_

    @property
    def is_attached(self) -> bool:
        """Does this session hold its device?"""
        return self._attachment.attached

    @property
    def plan(self) -> Any:
        """openipu's own: what an IPU would do with the program."""
        return self._compiled.plan

    def run(
        self, inputs: h2dStreamBufferMaps | None = None, downcast_inputs: bool = True
    ) -> dict[DeviceToHostStream, Array]:
        """Run the main graph once; an array for each stream that it stores to."""
        self._check_attached()
        results = self.create_host_outputs()
        self.run_with_outputs(inputs, results, downcast_inputs)
        return results

    def run_with_outputs(
        self,
        inputs: h2dStreamBufferMaps | None = None,
        outputs: d2hStreamBufferMaps | None = None,
        downcast_inputs: bool = True,
    ) -> None:
        """Run the main graph once, into arrays that are given."""
        self._check_attached()
        given = {
            stream: to_numpy(value, downcast=downcast_inputs, copy=False) for stream, value in (inputs or {}).items()
        }
        wanted = dict(outputs or {})
        self._validate_run_inputs(given)
        self._validate_run_outputs(wanted)
        for stream, array in given.items():
            form = stream.dtype.as_numpy()
            if array.dtype != form:
                given[stream] = _convert(stream, array)
        found = self._compiled.run(given)
        self._in_sync = not self._compiled.lowered.written
        for target, array in wanted.items():
            array[...] = found[target].reshape(array.shape)

    def create_host_outputs(self) -> dict[DeviceToHostStream, Array]:
        """Empty arrays for all streams that the program stores to."""
        return {
            stream: np.empty(self._full_input_shape(stream.shape), dtype=stream.dtype.as_numpy())
            for stream in self._expected_outputs()
        }

    def expected_inputs(self) -> list[HostToDeviceStream]:
        """The streams that a run needs data for."""
        return list(self._compiled.lowered.inputs)

    def _expected_outputs(self) -> list[DeviceToHostStream]:
        return list(self._compiled.lowered.outputs)

    def weights_to_host(self) -> None:
        """Bring the values of variables back from the device."""
        if self.ir_._has_read_only_memmap:
            raise RuntimeError(
                "A variable of this program is a file that is mapped for reading only, so weights cannot come "
                "back from the "
                "device. Map it with mode `r+`."
            )
        self._check_attached()
        self._compiled.memory.read()
        self._in_sync = True

    def weights_from_host(self) -> None:
        """Copy all variables from the host to the device."""
        self._check_attached()
        self._compiled.memory.load()

    def get_tensor_data(self, tensor: Variable | Constant) -> Array:
        """The value of a variable or a constant."""
        return self.get_tensors_data([tensor])[tensor]

    def get_tensors_data(self, tensors: Iterable[Variable | Constant]) -> dict[Any, Array]:
        """The values of variables and constants."""
        wanted = list(tensors)
        for tensor in wanted:
            if not isinstance(tensor, Constant | Variable):
                raise TypeError(
                    f"{tensor} is not of type Constant or Variable, and only these have data outside of a run."
                )
        if self.is_attached and not self._in_sync and any(isinstance(tensor, Variable) for tensor in wanted):
            self.weights_to_host()
        return {tensor: self._find_data(tensor) for tensor in wanted}

    def _find_data(self, tensor: Variable | Constant) -> Array:
        if isinstance(tensor, Variable) and tensor.retrieval_mode == "all_replicas":
            grouping = tensor.replica_grouping
            if grouping.group_size > 1:
                kept = tensor._all_replicas
                if kept is None:
                    groups = grouping.assignment
                    kept = [tensor._data[group] if grouping.num_groups > 1 else tensor._data for group in groups]
                return np.stack(kept)
        return tensor._data.copy() if not isinstance(tensor._data, np.memmap) else tensor._data

    def write_variable_data(self, tensor: Variable, data: Array) -> None:
        """Give a variable another value."""
        self.write_variables_data({tensor: data})

    def write_variables_data(self, tensors: Mapping[Variable, Array]) -> None:
        """Give variables other values."""
        if self.is_attached and not self._in_sync:
            self.weights_to_host()
        for tensor, data in tensors.items():
            self._write(tensor, data)
        if self.is_attached:
            self.weights_from_host()

    def _write(self, tensor: Variable, data: Any) -> None:
        if not isinstance(tensor, Variable):
            raise TypeError(f"Tensor {tensor.id} is not of type Variable, and nothing else can be written.")
        form = tensor.dtype.as_numpy()
        if isinstance(data, int | float):
            if tensor.dtype in (float8_143, float8_152):
                raise TypeError(
                    f"Numbers of 8 bits are given as an array of {form}, for {tensor.id} too: "
                    "`popxl.fp8_utils.host_pow2scale_cast_to_fp8` makes one."
                )
            data = np.asarray(data).astype(form)
        if data.dtype != form:
            raise TypeError(
                f"The array for {tensor.id} holds {data.dtype}, which must match the equivalent type of {tensor.dtype}."
            )
        if data.shape != tensor.shape_on_host:
            raise ValueError(
                f"The array for {tensor.id} is {data.shape} and must match the shape of the variable, {tensor.shape}."
            )
        if tensor.retrieval_mode == "all_replicas" and tensor.replica_grouping.group_size > 1:
            raise NotImplementedError(
                f'{tensor.id} comes back from all replicas ("all_replicas"), and cannot be written that way yet.'
            )
        if tensor._memmap_arr is not None:
            tensor._memmap_arr[...] = data
        else:
            tensor._data = np.array(data, order="C")

    def __enter__(self) -> Session:
        self._was_attached.append(self.is_attached)
        if not self.is_attached:
            self._attachment.attach()
            self.weights_from_host()
        return self

    def __exit__(self, exc_type: object, exc_value: object, exc_tb: object) -> None:
        if self._was_attached.pop():
            return
        if exc_type is None and self.weights_to_host_on_exit:
            self.weights_to_host()
        self._attachment.detach()

    def _check_attached(self) -> None:
        if not self.is_attached:
            raise ValueError("Must be attached to device first: use the session in `with session:`.")

    @property
    def _extra_input_dims(self) -> tuple[int, ...]:
        sizes = (self.ir_.num_host_transfers, self.ir_.instance_replication_factor)
        return tuple(size for size in sizes if size > 1)

    def _full_input_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._extra_input_dims + shape

    def _validate_run_inputs(self, inputs: Mapping[HostToDeviceStream, Array]) -> None:
        self._check_streams(inputs, self.expected_inputs())

    def _validate_run_outputs(self, outputs: Mapping[DeviceToHostStream, Array]) -> None:
        self._check_streams(outputs, self._expected_outputs())

    def _check_streams(self, given: Mapping[Any, Array], expected: Iterable[Stream]) -> None:
        known = set(expected)
        if set(given) != known:
            kinds = [*given, *known]
            what = "input" if isinstance(kinds[0], HostToDeviceStream) else "output"
            unexpected = {str(stream) for stream in set(given) - known}
            missing = {str(stream) for stream in known - set(given)}
            raise ValueError(
                f"Unexpected/Missing {what}: {unexpected or 'none'} not known to the program, {missing or 'none'} "
                "not given."
            )
        for stream, array in given.items():
            self._check_shape(stream, array)

    def _check_shape(self, stream: Stream, array: Array) -> None:
        what = "input" if isinstance(stream, HostToDeviceStream) else "output"
        transfers, replicas = self.ir_.num_host_transfers, self.ir_.instance_replication_factor
        first = 0
        if transfers > 1:
            first = 1
            if not array.shape or array.shape[0] < transfers:
                size = array.shape[0] if array.shape else 0
                raise ValueError(
                    f"The array for {what} stream {stream.tensor_id} is not large enough: it has {size} "
                    "transfers, and a run makes "
                    f"num_host_transfers = {transfers}."
                )
        if replicas > 1:
            if len(array.shape) <= first or array.shape[first] != replicas:
                size = array.shape[first] if len(array.shape) > first else 0
                raise ValueError(
                    f"Axis {first} of the array for {what} stream {stream.tensor_id} has {size} elements and "
                    "should be of size "
                    f"replication_factor = {replicas}."
                )
            first += 1
        rest = array.shape[first:]
        if rest != stream.shape and not (math.prod(rest) == 1 and math.prod(stream.shape) == 1):
            raise ValueError(
                f"Shape mismatch for {what} stream {stream.tensor_id}: a run takes "
                f"{self._full_input_shape(stream.shape)} "
                f"({stream.shape} each time), and the array is {array.shape}."
            )


def _convert(stream: Stream, array: Array) -> Array:
    form = stream.dtype.as_numpy()
    if array.dtype.kind in "iu" and form.kind in "iu" and array.dtype.itemsize == form.itemsize:
        return array.view(form)
    if stream.dtype in (float8_143, float8_152) and array.dtype == np.uint8:
        return array.view(form)
    raise ValueError(
        f"The array for stream {stream.tensor_id} holds {array.dtype}, and the stream {stream.dtype}. Convert it first."
    )
