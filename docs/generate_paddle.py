"""Writes the table of options of docs/paddle.md and all of docs/paddle_api.md from the code, without Paddle.

python docs/generate_paddle.py            write the pages
python docs/generate_paddle.py --check    exit code 1 if a page is not up to date
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, API_PAGE = HERE / "paddle.md", HERE / "paddle_api.md"
SOURCES = HERE.parent / "src" / "openipu_paddle"
TABLE = SOURCES / "option_table.py"
START, END = "<!-- options: made by docs/generate_paddle.py -->", "<!-- end of options -->"

# what users call a class, its file, and the class in it: all of its public members are listed
CLASSES = {
    "paddle.static.IpuStrategy": ("strategy.py", "IpuStrategy"),
    "paddle.static.IpuCompiledProgram": ("compiled_program.py", "IpuCompiledProgram"),
    "paddle.base.core.IpuStrategy": ("strategy.py", "OptionStore"),
    "paddle.base.core.IpuBackend": ("backend.py", "IpuBackend"),
    "paddle.IPUPlace": ("devices.py", "make_place_class.IPUPlace"),
    "paddle.inference.Config": ("inference.py", "make_config_class.Config"),
}
FUNCTIONS = {
    "paddle.is_compiled_with_ipu": "acts: true once IPUs are switched on; also in `paddle.device` and `core`",
    "paddle.set_device": 'acts: `"ipu"` and `"ipu:1"` beside Paddle\'s own; also in `paddle.device`',
    "paddle.base.core.get_ipu_device_count": "acts: the IPUs of the [virtual pod](pod.md)",
    "paddle.static.ipu_shard_guard": "acts: ops run on this IPU and in this stage, in both forms",
    "paddle.static.set_ipu_shard": "acts: the same for a layer or a function",
    "paddle.incubate.identity_loss": "acts: names the loss of a program; reductions sum, mean, none",
    "paddle.static.Executor.run": "acts: runs what `compile` returned; anything else runs on Paddle's own executor",
    "paddle.inference.create_predictor": "acts: on IPUs where the configuration enables them, else Paddle's own",
    "paddle.jit.to_static": "acts: while a strategy's patches are registered, in both forms",
    "paddle.optimizer.lr.LRScheduler.step": "acts: the new rate holds for the next run, static or dynamic",
    "paddle.utils.cpp_extension.load": "acts: builds what needs no PopART; [custom ops](paddle.md#custom-ops)",
    "paddle.utils.run_check": "Paddle's own",
}
VARIABLES = {
    "IPU_COMPILE_ONLY": "acts: programs are planned and compiled, both are kept, and runs answer with nothing",
    "IPU_CACHE_PATH": "acts: where plans are kept and looked for; native code is in `OPENIPU_CACHE_DIR`",
    "IPU_ONNX_DUMP_PATH": "acts: each program is written there as ONNX when it is compiled",
    "POPLAR_IPUMODEL": "no effect: every IPU is a model here; choose a system with `--system`",
    "OPENIPU_PADDLE": "of openipu: 1 switches IPUs on wherever Paddle is imported",
    "FLAGS_enable_pir_api": "Paddle's own: [which form programs have](paddle.md#two-forms-of-programs)",
}
LACKS = {  # names and abilities of the original that are not here, each with its reason
    "`checkpointoutput`, `popart_optimizer`, `custom_op` as ops": "rules that the original makes and reads itself",
    "control flow (`while`, `conditional_block`, `pd_op.if`, `pd_op.while`)": "not translated; nor by the original",
    "custom ops in C++ for PopART": "register them in Python: `openipu.register_custom_op`",
    "`enable_pattern`, `disable_pattern`": "kept and read back; there are no PopART patterns to switch",
    "model runtime (`enable_model_runtime_executor`, `num_buffers`, `timeout_ms`)": "another way to the same results",
    "several hosts (`enable_distribution`, `distributed` of the suite)": "one process; `poprun` starts several",
    "L1 decay, clipping by value or by norm": "refused by name, as by the original",
    "L-BFGS, NAdam, RAdam, ASGD, Rprop and other optimizers": "refused by name, as by the original",
    "sequences of several lengths in one batch (LoD)": "pad them",
}
INTRODUCTION = """\
# PaddlePaddle on IPU: every name

<!-- Made by docs/generate_paddle.py from the code. Do not edit. -->

What Paddle's IPU wheel adds to Paddle, and what of it is here. [How to use it](paddle.md); [every option of
IpuStrategy](paddle.md#options).

- **acts**: does here what it does there.
- **no effect**: accepted; there is nothing here that it could change.
- **lacks**: is not here, and a program that needs it is refused with an error that says so.
"""


def load_table() -> Any:
    """The module of the table; its package would import Paddle."""
    spec = importlib.util.spec_from_file_location("paddle_option_table", TABLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build_page(page: str) -> str:
    """The page with a new table."""
    table = load_table()
    acts = [(name, f"{o.type}, {o.default!r}", o.effect) for name, o in table.OPTIONS.items() if o.acts]
    acts += [(name, "dictionary or function", text) for name, text in table.SPECIAL.items() if text.startswith("acts")]
    silent: dict[str, list[str]] = {}
    for name, effect in [*((n, o.effect) for n, o in table.OPTIONS.items()), *table.SPECIAL.items()]:
        if not effect.startswith("acts"):
            silent.setdefault(effect.removeprefix("no effect: "), []).append(name)
    lines = [
        "| Option | Type, default | Acts |",
        "|---|---|---|",
        *(f"| `{name}` | {kind} | {text.removeprefix('acts: ')} |" for name, kind, text in sorted(acts)),
        "",
        "Accepted, checked, and without effect:",
        "",
        "| Because | Options |",
        "|---|---|",
        *(f"| {reason} | {', '.join(f'`{name}`' for name in sorted(names))} |" for reason, names in silent.items()),
    ]
    before, _, rest = page.partition(START)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} has no {START} … {END}.")
    return f"{before}{START}\n\n" + "\n".join(lines) + f"\n\n{END}{after}"


def build_api_page() -> str:
    """The page of names."""
    from openipu.translate.paddle.optimizers import OPTIMIZERS
    from openipu.translate.paddle.pir_table import ADAPTERS
    from openipu.translate.paddle.table import TABLE as OPS

    ops = sorted(op for _, op in OPS.list_ops())
    new = sorted(set(ADAPTERS) - set(ops))
    lines = [INTRODUCTION]
    for name, (file, path) in CLASSES.items():
        lines += ["", f"## `{name}`", "", *_write_class(name, file, path)]
    lines += ["", "## Functions", "", *_write_rows("Name", FUNCTIONS)]
    lines += ["", "## Environment", "", *_write_rows("Variable", VARIABLES)]
    lines += ["", "## Ops", "", f"{len(ops)} types of ops of the legacy form are translated:", ""]
    lines += [", ".join(f"`{op}`" for op in ops) + "."]
    lines += ["", f"Programs of the new form (PIR) have {len(new)} ops more under names of their own:", ""]
    lines += [", ".join(f"`{op}`" for op in new) + "."]
    lines += ["", f"Ops that update weights: {', '.join(f'`{op}`' for op in sorted(OPTIMIZERS))}."]
    lines += ["", "## Lacks", "", *_write_rows("What", LACKS, code=False)]
    return "\n".join(lines) + "\n"


def _write_rows(title: str, rows: dict[str, str], *, code: bool = True) -> list[str]:
    named = [f"| `{name}` | {text} |" if code else f"| {name} | {text} |" for name, text in rows.items()]
    return [f"| {title} | |", "|---|---|", *named]


def _write_class(name: str, file: str, path: str) -> list[str]:
    """The first line of a class, and its public members."""
    node = find_class(file, path)
    lines = [ast.get_docstring(node) or "", "", "| Member | |", "|---|---|"]
    for member in list_members(node):
        text = (ast.get_docstring(member) or "").split("\n")[0]
        is_property = any(isinstance(entry, ast.Name) and entry.id == "property" for entry in member.decorator_list)
        lines.append(f"| `{member.name}{'' if is_property else _write_signature(member)}` | {text} |")
    return lines


def find_class(file: str, path: str) -> ast.ClassDef:
    """A class by the names that lead to it."""
    node: Any = ast.parse((SOURCES / file).read_text(encoding="utf-8"))
    for part in path.split("."):
        node = next(entry for entry in node.body if getattr(entry, "name", None) == part)
    assert isinstance(node, ast.ClassDef)
    return node


def list_members(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The public methods and properties of a class."""
    return [entry for entry in node.body if isinstance(entry, ast.FunctionDef) and not entry.name.startswith("_")]


def _write_signature(member: ast.FunctionDef) -> str:
    """The parameters and their defaults, without types."""
    for entry in (*member.args.args, *member.args.kwonlyargs, *member.args.posonlyargs):
        entry.annotation = None
    for more in (member.args.vararg, member.args.kwarg):
        if more is not None:
            more.annotation = None
    member.args.args = [entry for entry in member.args.args if entry.arg not in ("self", "cls")]
    return f"({ast.unparse(member.args).replace('|', chr(92) + '|')})"


def main() -> int:
    pages = {PAGE: build_page(PAGE.read_text(encoding="utf-8")), API_PAGE: build_api_page()}
    if "--check" in sys.argv[1:]:
        return int(any(not path.is_file() or path.read_text(encoding="utf-8") != text for path, text in pages.items()))
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
