"""`openipu export`: a program as plain ONNX or as a plain PyTorch file that needs no openipu.

In: a function that returns a planning job, or a model file. Out: files, and how near their results are to openipu's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from openipu.cli.model_options import add_model_options, read_sizes
from openipu.cli.terminal import open_console, print_json

_EPILOG = """\
examples
  openipu export models.py:job -o model.onnx
  openipu export models.py:job --to torch -o model.py          model.py and its weights, model.pt
  openipu export model.onnx --input image=1,3,224,224 -o model.py
  openipu run --export out train.py                            all programs of a script, as they are at its end

TARGET is what `openipu plan` takes: a model file, package.module:function or path/script.py:function. A model that was
built on the meta device has no weights: build it without torch.device("meta"), or let --random-weights make some.
What was written is run, without openipu, and compared with openipu's own results before it is put in place.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "export",
        parents=[shared],
        help="write a program as plain ONNX or PyTorch",
        description="Write a captured program, with its weights, as plain ONNX or as a PyTorch file without openipu.",
        epilog=_EPILOG,
    )
    parser.add_argument("target", metavar="TARGET", help="module:function, script.py:function or a model file")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="FILE.onnx or FILE.py")
    parser.add_argument("--to", choices=("onnx", "torch"), help="what to write; by default as FILE is named")
    parser.add_argument("--random-weights", type=int, metavar="SEED", help="make weights up where a model has none")
    parser.add_argument("--no-check", action="store_true", help="do not run what was written")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_model_options(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.cli.exported import print_report
    from openipu.cli.targets import load_job
    from openipu.export.exporting import choose_format, export_snapshot
    from openipu.export.snapshot import snapshot_job

    path = Path(arguments.output)
    kind = choose_format(path, arguments.to)  # before a model is built
    job = load_job(arguments.target, read_sizes(arguments, arguments.target), weights=True)
    snapshot = snapshot_job(job, random_weights=arguments.random_weights)
    report = export_snapshot(snapshot, path, to=kind, check=not arguments.no_check)
    if arguments.json:
        print_json(
            {
                "files": [str(file) for file in report.files],
                "checks": [
                    {
                        "what": entry.what,
                        "results": entry.results,
                        "largest_difference": None if entry.shapes_only else entry.difference,
                        "largest_value": entry.largest,
                    }
                    for entry in report.comparisons
                ],
                "notes": list(report.notes),
            }
        )
    else:
        print_report(open_console(), report)
    return 0
