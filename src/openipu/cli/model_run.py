"""`openipu run model.onnx`: a model file on data from a file.

In: the words behind `run`. Out: results in a file if one is named, and their names, formats and shapes as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from openipu.cli.near import suggest_file
from openipu.cli.parser import Parser
from openipu.cli.terminal import open_console
from openipu.errors import InputError, OptionError

if TYPE_CHECKING:
    import torch

_EPILOG = """\
examples
  openipu run model.onnx --inputs data.npz --outputs results.npz
  openipu run net.json --inputs data.npz                          a Paddle model with net.pdiparams beside it

data.npz holds one array for each input, under its name, as numpy.savez("data.npz", image=…) writes it. The model is
compiled for the shapes of these arrays; an array that decides shapes becomes a constant of the program.
"""


def run_model(words: Sequence[str]) -> int:
    """Run a model file once. `words`: the file, and options of its own."""
    parser = Parser(
        prog="openipu run MODEL_FILE",
        usage="openipu run [options] MODEL_FILE --inputs DATA.npz [--outputs RESULTS.npz]",
        description="Run an ONNX or Paddle model on data from a file, then print what an IPU would do with it.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "model", metavar="MODEL_FILE", help="FILE.onnx, FILE.pdmodel or FILE.json; weights of Paddle lie beside it"
    )
    parser.add_argument("--inputs", metavar="DATA.npz", help="arrays by the names of the model's inputs")
    parser.add_argument("--outputs", metavar="RESULTS.npz", help="where to write the results, by their names")
    arguments = parser.parse_args(list(words))
    from openipu.model_files import run_file

    path = Path(arguments.model)
    if not path.exists():
        raise OptionError(f"There is no file {path} in {Path.cwd()}. Check the path.{suggest_file(path)}")
    results = run_file(path, read_inputs(Path(arguments.inputs)) if arguments.inputs is not None else {})
    console = open_console()
    for name, value in results.items():
        kind = str(value.dtype).removeprefix("torch.")
        console.print(f"{escape(name)}: {kind} {escape(str(list(value.shape)))}", soft_wrap=True)
    if arguments.outputs is not None:
        write_results(Path(arguments.outputs), results)
    return 0


def read_inputs(path: Path) -> dict[str, torch.Tensor]:
    """The arrays of a file as tensors."""
    import torch

    from openipu.files.arrays import read_arrays
    from openipu.files.origin import Origin

    origin = Origin(str(path), InputError, 'Write it with numpy.savez("data.npz", name_of_input=array, …).')
    found: dict[str, torch.Tensor] = {}
    for name, array in read_arrays(path, origin).items():
        try:
            native = array.astype(array.dtype.newbyteorder("="), order="C")
            found[name] = torch.from_numpy(native)
        except TypeError as error:
            raise origin.fail(f"holds {name!r} as {array.dtype}, for which there are no tensors") from error
    return found


def write_results(path: Path, results: Mapping[str, torch.Tensor]) -> None:
    """Write results by name. Formats that NumPy has not are written as float32, which holds them exactly."""
    import zipfile

    import numpy as np
    import torch

    from openipu.files.saving import write_aside

    small = (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)
    try:
        with write_aside(path) as part, zipfile.ZipFile(part, "w", allowZip64=True) as file:
            for name, value in results.items():
                held = value.detach().to(torch.float32) if value.dtype in small else value.detach()
                with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, held.contiguous().numpy(), allow_pickle=False)
    except OSError as error:
        raise OptionError(f"--outputs {path}: cannot be written ({error.strerror}). Choose another place.") from error
