"""The problem that the matmul and convolution planner solves: sizes, no values.

In: sizes that an op rule reads off its operands. Out: `Convolution`, which also describes matmuls and both gradients
of a convolution.

How callers fold what is not a 2-d convolution:

- 1-d: `out_height = kernel_height = 1`, the length is the width.
- 3-d: `batch * out_depth` as the batch and `in_channels * kernel_depth` as the channels: depth taps become channels.
- transposed: `input_dilation_*` is its stride, the stride is 1 (as `input_gradient` does).
- `[batches, rows, inner] @ [batches, inner, columns]`: `from_matmul`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from openipu.errors import PlanError

_MAY_BE_ZERO = {"batch", "out_height", "out_width", "in_channels", "out_channels"}


@dataclass(frozen=True, slots=True)
class Convolution:
    """`out[batch, groups * out_channels, out_height, out_width]`; channels are those of one group.

    Padding is not a field: it costs nothing by itself, and `out_height` and `out_width` already contain it.
    """

    groups: int
    batch: int
    out_height: int
    out_width: int
    kernel_height: int
    kernel_width: int
    in_channels: int
    out_channels: int
    stride_height: int = 1
    stride_width: int = 1
    dilation_height: int = 1
    dilation_width: int = 1
    input_dilation_height: int = 1  # zeros between input rows: the stride of a transposed convolution
    input_dilation_width: int = 1
    half: bool = True  # operands and result are half; else float32
    float8: bool = False  # operands are float8, the result is half
    groups_are_batches: bool = False  # of a matmul: they lie apart already

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            least = 0 if entry.name in _MAY_BE_ZERO or entry.type == "bool" else 1
            if value < least:
                raise PlanError(
                    f"A convolution with {entry.name} = {value} cannot be planned: it must be at least {least}. "
                    "Check the shapes that the op rule passed on."
                )

    @property
    def is_empty(self) -> bool:
        """No result elements at all."""
        return self.result_elements == 0

    @property
    def result_elements(self) -> int:
        return self.groups * self.batch * self.out_height * self.out_width * self.out_channels

    @property
    def weight_elements(self) -> int:
        return self.groups * self.kernel_height * self.kernel_width * self.in_channels * self.out_channels

    @property
    def input_elements(self) -> int:
        """Input points that the kernel touches, without padding or inserted zeros counted twice."""
        height = count_input_points(
            self.out_height, self.kernel_height, self.stride_height, self.dilation_height, self.input_dilation_height
        )
        width = count_input_points(
            self.out_width, self.kernel_width, self.stride_width, self.dilation_width, self.input_dilation_width
        )
        return self.groups * self.batch * height * width * self.in_channels

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate; products with inserted zeros are not counted."""
        full = 2 * self.result_elements * self.kernel_height * self.kernel_width * self.in_channels
        return full // (self.input_dilation_height * self.input_dilation_width)

    @property
    def is_pointwise(self) -> bool:
        """A 1x1 kernel without inserted zeros: a matmul."""
        taps = self.kernel_height * self.kernel_width
        return taps * self.input_dilation_height * self.input_dilation_width == 1

    @property
    def element_bytes(self) -> int:
        """Of an operand."""
        if self.float8:
            return 1
        return 2 if self.half else 4


def count_input_points(outputs: int, taps: int, stride: int, dilation: int, input_dilation: int) -> int:
    """Input points along one axis that `outputs` results of a kernel of `taps` read."""
    if outputs == 0:
        return 0
    extent = (outputs - 1) * stride + (taps - 1) * dilation + 1
    return min(-(-extent // input_dilation), outputs * taps)


def from_matmul(*, batches: int, rows: int, inner: int, columns: int, half: bool, float8: bool = False) -> Convolution:
    """`[batches, rows, inner] @ [batches, inner, columns]`: rows are the field, columns the output channels.

    So the right-hand matrix, which holds the weights of a layer, gives the coefficients of the AMP units.
    """
    return Convolution(batches, 1, 1, rows, 1, 1, inner, columns, half=half, float8=float8, groups_are_batches=True)


def input_gradient(forward: Convolution, *, in_height: int, in_width: int) -> Convolution:
    """The convolution that carries the gradient back to an input of `in_height` x `in_width`."""
    return Convolution(
        groups=forward.groups,
        batch=forward.batch,
        out_height=in_height,
        out_width=in_width,
        kernel_height=forward.kernel_height,
        kernel_width=forward.kernel_width,
        in_channels=forward.out_channels,
        out_channels=forward.in_channels,
        stride_height=forward.input_dilation_height,
        stride_width=forward.input_dilation_width,
        dilation_height=forward.dilation_height,
        dilation_width=forward.dilation_width,
        input_dilation_height=forward.stride_height,
        input_dilation_width=forward.stride_width,
        half=forward.half,
    )


def weight_gradient(forward: Convolution) -> Convolution:
    """The gradient of the weights: the result's gradient is the kernel, and the batch is summed as channels are."""
    return Convolution(
        groups=forward.groups,
        batch=forward.in_channels,
        out_height=forward.kernel_height,
        out_width=forward.kernel_width,
        kernel_height=max(1, forward.out_height),
        kernel_width=max(1, forward.out_width),
        in_channels=forward.batch if forward.out_height * forward.out_width else 0,
        out_channels=forward.out_channels,
        stride_height=forward.dilation_height,
        stride_width=forward.dilation_width,
        dilation_height=forward.stride_height,
        dilation_width=forward.stride_width,
        input_dilation_height=forward.input_dilation_height,
        input_dilation_width=forward.input_dilation_width,
        half=forward.half,
    )
