"""`openipu validate`: the model against figures that others published.

In: a CSV file of figures. Out: a table by kind of work or by source, each row on request, and JSON.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from openipu.cli.terminal import open_console
from openipu.errors import OptionError

_EPILOG = """\
examples
  openipu validate --figures figures.csv                     a summary by kind of work
  openipu validate --figures figures.csv --rows              every row: predicted, published, error, reason
  openipu validate --figures figures.csv --only JIACONV --rows
  openipu validate --figures workloads.csv --json out.json   rows without a value get a prediction

A file has the columns id, kind (micro or e2e), system, ipus, workload, params (JSON), metric and unit, and value,
source and sdk where they are known. Errors are 100 times ln(predicted / published). A row that cannot be modelled is
listed with the reason and counts as unmodelled. Everything predicted is modelled: no IPU is used.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "validate",
        parents=[shared],
        help="hold the model against published figures",
        description="Predict every row of a file of published figures, and say how far off the predictions are.",
        epilog=_EPILOG,
    )
    parser.add_argument("--figures", metavar="FILE.csv", required=True, help="the file of figures")
    parser.add_argument("--json", metavar="OUT", help="write rows and summaries as JSON; - is standard output")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--only", metavar="TEXT", help="rows whose id or workload contains TEXT")
    parser.add_argument("--processes", type=int, metavar="N", help="how many predict side by side; one for each core")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    from openipu.cli.validated import describe_validation, print_validation, write_document
    from openipu.explore.validation import predict_together, read_rows, score_answer

    rows = read_rows(Path(arguments.figures))
    if arguments.only is not None:
        wanted = arguments.only.lower()
        rows = [row for row in rows if wanted in row.id.lower() or wanted in row.workload.lower()]
        if not rows:
            raise OptionError(f"--only {arguments.only}: no id and no workload of {arguments.figures} contains it.")
    started = time.perf_counter()
    errors = open_console(stderr=True)
    if errors.is_terminal:
        with errors.status("predicting") as status:
            answers = predict_together(
                rows,
                processes=arguments.processes,
                progress=lambda row: status.update(f"predicting {row.id}  {row.workload}"),
            )
    else:
        answers = predict_together(rows, processes=arguments.processes)
    scores = [score_answer(answer) for answer in answers]
    seconds = time.perf_counter() - started
    if arguments.json is not None:
        write_document(describe_validation(scores, arguments.figures, seconds), arguments.json)
    if arguments.json != "-":
        print_validation(scores, show_rows=arguments.rows, seconds=seconds)
    return 0
