"""`openipu run`: an unmodified script or module as `__main__`, then what an IPU would do with what it compiled.

In: a script with its own arguments. Out: what plain Python would have given (output, exit code, traceback), then a
summary of each compiled program on standard error and, with --profile, profiles and HTML reports.
"""

from __future__ import annotations

import argparse
import builtins
import importlib.machinery
import importlib.util
import io
import json
import os
import runpy
import sys
import time
import types
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.markup import escape

import openipu_startup
from openipu.cli.front_ends import explain_import
from openipu.cli.model_options import is_model_file
from openipu.cli.model_run import run_model
from openipu.cli.near import suggest_file
from openipu.cli.terminal import open_console
from openipu.cli.termination import close_on_sigterm
from openipu.errors import OpenIpuError, OptionError, is_debugging
from openipu.history import history
from openipu.machine import resolve_system
from openipu.overrides import VERIFIED_CALLS, VERIFY_VARIABLE, Overrides, read_verified_calls, set_overrides

if TYPE_CHECKING:
    from openipu.cli.live import LiveServer

_WITH_VALUE = ("--system", "--profile", "--trace", "--export", "--engine", "--tier", "--port")
_EPILOG = """\
examples
  openipu run train.py --epochs 1
  openipu run --system pod16 --profile out train.py --epochs 1
  openipu run --live train.py    with a page on this machine that shows programs as they compile and run
  openipu run --verify train.py --epochs 1    are results those of the reference engine?
  openipu run -m package.train --epochs 1
  openipu run --check train.py --epochs 1    which SDK names the script uses, and whether openipu has them
  openipu run --export out train.py --epochs 1    leave openipu: the trained model as plain PyTorch and ONNX
  openipu run model.onnx --inputs data.npz --outputs results.npz

Options of openipu come before the script; everything after it belongs to the script. Results are computed on this
machine at its own speed; cycles, memory and rates are modelled for the system. The script's own output, exit code and
traceback stay as plain Python has them; the summary goes to standard error, also when the script fails or gets SIGTERM.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "run",
        parents=[shared],
        help="run a script as it is, then say what an IPU would do",
        usage="openipu run [options] script.py [arguments …]\n       openipu run [options] -m module [arguments …]"
        "\n       openipu run [options] MODEL_FILE --inputs DATA.npz",
        description="Run an unmodified script, then print what an IPU would do with the programs that it compiled.",
        epilog=_EPILOG,
    )
    parser.add_argument("--system", metavar="NAME|FILE.toml", help="the machine to plan for")
    parser.add_argument("--profile", metavar="DIR", help="write profile.pop and report.html of each program under DIR")
    parser.add_argument("--trace", metavar="DIR", help="record what this host does, and write system.html, under DIR")
    parser.add_argument(
        "--export",
        metavar="DIR",
        help="at the end, write each program with its weights as plain PyTorch and ONNX, under DIR",
    )
    parser.add_argument(
        "--engine",
        choices=("auto", "operators", "kernels", "reference"),
        help="how to execute: with PyTorch's operators, with C++ kernels that the first step waits for, or first with "
        "the one and then with the other; or by the reference, slowly, one operator after the other",
    )
    parser.add_argument(
        "--verify",
        nargs="?",
        const=str(VERIFIED_CALLS),
        metavar="CALLS",
        help=f"compare the first calls of each program with the reference engine (--verify=CALLS; {VERIFIED_CALLS})",
    )
    # The option of earlier versions.
    parser.add_argument("--tier", dest="engine", choices=("auto", "instant", "compiled"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--deterministic", action="store_true", help="the same bits in every run of a seed; compiles nothing"
    )
    parser.add_argument(
        "--tf1",
        action="store_true",
        help="for a script of TensorFlow 1: graphs by default, and the names of then",
    )
    parser.add_argument("--live", action="store_true", help="serve a page on this machine while the script runs")
    parser.add_argument("--port", type=int, metavar="N", help="with --live: this port, not any free one")
    parser.add_argument("--quiet", action="store_true", help="print no summary")
    parser.add_argument("--check", action="store_true", help="list the SDK names in use, and which are there")
    parser.add_argument("--json", action="store_true", help="with --check: the list as JSON on standard output")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m does")
    parser.set_defaults(execute=execute)


def split_script(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cut `run`'s own options from the script and its arguments, which argparse must not look at."""
    command = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    if command is None or words[command] != "run":
        return list(words), []
    at = command + 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return list(words[:at]), list(words[at + 1 :])
        if word == "-m":
            return list(words[: at + 2]), list(words[at + 2 :])
        if word.startswith("-m"):  # -mmodule
            return list(words[: at + 1]), list(words[at + 1 :])
        if not word.startswith("-") or word == "-":
            return list(words[:at]), list(words[at:])
        at += 2 if word in _WITH_VALUE else 1
    return list(words), []


def execute(arguments: argparse.Namespace) -> int:
    script: list[str] = arguments.script
    if arguments.json and not arguments.check:
        raise OptionError("--json belongs to --check: openipu run --check --json script.py.")
    if arguments.port is not None and not arguments.live:
        raise OptionError("--port belongs to --live: openipu run --live --port 8100 script.py.")
    if arguments.live and arguments.check:
        raise OptionError("--live shows what a script compiles and runs; --check is about its names. Choose one.")
    if arguments.module is None and not script:
        raise OptionError("There is no script to run. Give one: openipu run script.py, or openipu run -m module.")
    is_model = arguments.module is None and is_model_file(script[0])
    if arguments.check and is_model:
        raise OptionError(f"{script[0]} is a model, which uses no names of an SDK: --check is for scripts.")
    system = resolve_system(arguments.system)
    profile_root = _prepare_directory(arguments.profile, "--profile")
    trace_root = _prepare_directory(arguments.trace, "--trace")
    export_root = _prepare_directory(arguments.export, "--export")
    if arguments.module is None and not is_model:
        _check_script(script[0])

    set_overrides(Overrides(system if arguments.system is not None else None, arguments.engine, profile_root))
    if arguments.tf1:
        os.environ["OPENIPU_TF1"] = "1"
    if arguments.verify is not None:
        os.environ[VERIFY_VARIABLE] = str(read_verified_calls(arguments.verify or "none"))  # for other processes, too
    if arguments.deterministic:
        os.environ["OPENIPU_DETERMINISTIC"] = "1"  # for the processes of the script, too
    if export_root is not None:
        history.executables = []
    started = time.time()
    if trace_root is not None:
        from openipu.trace.options import VARIABLE

        # By the environment, so that processes which the script starts are recorded too.
        os.environ[VARIABLE] = json.dumps({"enable": True, "directory": str(trace_root)})
    if arguments.check:
        from openipu.cli.usage.check import check_script

        history.ops = Counter()
        start = Path(script[0]).absolute() if arguments.module is None else _find_module_file(arguments.module)
        return check_script(start, lambda: _start(arguments.module, script), history, as_json=arguments.json)

    live = _open_live(arguments) if arguments.live else None
    failed = True
    exit_code: int | None = None  # a signal, unless the script comes to its end

    def close() -> None:
        if live is not None:
            live.stop(exit_code)
        sys.stdout.flush()
        from openipu.cli.summary import close_run, close_trace

        close_run(history, quiet=arguments.quiet, failed=failed)
        if export_root is not None and history.executables:
            from openipu.cli.exported import export_all

            export_all(history.executables, export_root)
        if trace_root is not None:
            close_trace(trace_root, started, quiet=arguments.quiet)

    try:
        speaks = trace_root is not None or live is not None
        with close_on_sigterm(lambda: close() if history.compiled or speaks else None):
            exit_code = run_model(script) if is_model else _start(arguments.module, script)
        failed = exit_code != 0
        return exit_code
    except OptionError:  # nothing was started: there is nothing to sum up
        arguments.quiet, exit_code = True, 2
        raise
    except SystemExit as leave:
        failed = leave.code not in (None, 0)
        exit_code = leave.code if isinstance(leave.code, int) else int(failed)
        raise
    finally:
        close()


def _open_live(arguments: argparse.Namespace) -> LiveServer:
    from openipu.cli.live import Board, LiveServer

    shown = (
        " ".join(arguments.script)
        if arguments.module is None
        else " ".join(["-m", arguments.module, *arguments.script])
    )
    server = LiveServer(Board(shown), arguments.port or 0)
    server.start()
    open_console(stderr=True).print(f"openipu: live at {server.address}", soft_wrap=True)
    return server


def _start(module: str | None, words: list[str]) -> int:
    openipu_startup.install()  # where the environment lacks `openipu.pth`
    os.environ.setdefault("OPENIPU_PADDLE", "1")  # for a script of Paddle's, and the processes that it starts
    return _run_script(words) if module is None else _run_module(module, words)


def _find_module_file(module: str) -> Path | None:
    _replace_first_path(os.getcwd())
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None  # running it says so
    return Path(spec.origin) if spec is not None and spec.origin else None


def _prepare_directory(name: str | None, option: str) -> Path | None:
    """Scripts may change the working directory: the path is fixed now, and a bad one is told before a long run."""
    if name is None:
        return None
    path = Path(name).absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"{option} {name}: cannot make this directory ({error.strerror}). Choose another place."
        ) from error
    return path


def _check_script(name: str) -> None:
    path = Path(name)
    if path.is_dir() and not (path / "__main__.py").exists():
        raise OptionError(f"{name} is a directory without a __main__.py. Name the script to run.")
    if not path.exists():
        raise OptionError(f"There is no script {name} in {Path.cwd()}. Check the path.{suggest_file(path)}")


def _run_script(words: list[str]) -> int:
    sys.argv = list(words)
    path = Path(words[0])
    if path.suffix == ".py" or not (path.is_dir() or zipfile.is_zipfile(path)):
        _replace_first_path(str(path.resolve().parent))
        return _run_as_python(lambda: _execute_file(str(path.absolute())))
    return _run_as_python(lambda: runpy.run_path(str(path.absolute()), run_name="__main__"))


def _execute_file(path: str) -> None:
    """What the interpreter does with a script. The module stays `__main__`, for exit handlers, pickles and workers."""
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    with io.open_code(path) as file:
        source = file.read()
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = loader
    main.__dict__["__cached__"] = None
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    exec(compile(source, path, "exec"), main.__dict__)


def _run_module(module: str, words: list[str]) -> int:
    _replace_first_path(os.getcwd())
    try:
        found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise OptionError(f"There is no module {module!r} on the path of this Python. Check the name after -m.")
    sys.argv = [module, *words]  # runpy puts the module's file in place of the first
    return _run_as_python(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


def _replace_first_path(directory: str) -> None:
    """`sys.path[0]` as plain Python sets it; with -P or PYTHONSAFEPATH it sets none."""
    if not sys.flags.safe_path:
        sys.path[0] = directory


def _run_as_python(start: Callable[[], object]) -> int:
    """Call `start`; an uncaught exception is shown as plain Python shows it, without our own frames."""
    try:
        start()
    except SystemExit:
        raise  # the interpreter gives it the exit code that the script meant
    except KeyboardInterrupt:
        sys.excepthook = _hide_own_frames(sys.excepthook)
        raise  # the interpreter shows it and ends by the signal, as a shell expects
    except BaseException as error:
        sys.stdout.flush()
        _hide_own_frames(sys.excepthook)(type(error), error, error.__traceback__)
        _explain(error)
        return 1
    return 0


def _hide_own_frames(show: Callable[..., Any]) -> Callable[..., Any]:
    def show_shortened(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shortened = _drop_own_frames(trace)
        if _is_explained(error):
            shortened = _keep_user_frames(shortened) or shortened
        show(kind, error.with_traceback(shortened), shortened)

    return show_shortened


def _drop_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """Everything after our own frames, which come before the script's."""
    while trace is not None and trace.tb_frame.f_code.co_filename != __file__:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def _is_explained(error: BaseException) -> bool:
    """Is it an error of openipu, or a front end's word for one, that names what the user wrote?"""
    told = any(isinstance(entry, OpenIpuError) for entry in (error, error.__context__))
    return told and error.__cause__ is None and not is_debugging()


def _keep_user_frames(trace: TracebackType | None) -> TracebackType | None:
    from openipu.capture.lines import keep_user_frames  # torch is there: an error of openipu came out of it

    return keep_user_frames(trace)


def _explain(error: BaseException) -> None:
    """A front end that is not here is the likeliest surprise: say what to do after the traceback."""
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return
    explanation = explain_import(error.name)
    if explanation is not None:
        open_console(stderr=True).print(f"openipu run: {escape(explanation)}")
