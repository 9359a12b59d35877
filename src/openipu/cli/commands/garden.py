"""`openipu garden`: families of models, small enough to train here and as published to plan.

In: a verb and a family's name. Out: what `openipu_garden.commands` prints. The garden is written in the front ends,
which `openipu` itself does not import: it is loaded by name when the command is used.
"""

from __future__ import annotations

import argparse
import importlib

_EPILOG = """\
examples
  openipu garden list                          families, front ends, sizes, published rates
  openipu garden run resnet-50                 train a small version to its stated quality
  openipu garden plan bert-large --system pod16   the published configuration, modelled beside published
  openipu garden report vit                    the report of that plan, as a page to open

Small versions learn from generated data with fixed seeds, each within two minutes. `run` ends with exit code 1 if one
does not reach its quality. All cycles, bytes and rates of plans are modelled: no IPU is used.
"""


def add_parser(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    parser = subparsers.add_parser(
        "garden",
        parents=[shared],
        help="families of models: train a small one, plan it as published",
        description="Models that IPUs are known by: train a small version, plan the published one.",
        epilog=_EPILOG,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="verb", title="verbs", required=True)
    listing = verbs.add_parser("list", parents=[shared], help="families, front ends, sizes, published rates")
    run = verbs.add_parser("run", parents=[shared], help="train a small version to its stated quality")
    run.add_argument("names", metavar="NAME", nargs="*", help="families that `openipu garden list` names")
    run.add_argument("--all", action="store_true", help="every family, one after the other")
    plan = verbs.add_parser("plan", parents=[shared], help="the published configuration, modelled beside published")
    report = verbs.add_parser("report", parents=[shared], help="write profile.pop and report.html of a family's plan")
    for verb in (plan, report):
        verb.add_argument("name", metavar="NAME", help="a family that `openipu garden list` names")
        verb.add_argument("--system", metavar="NAME|FILE.toml", help="the machine; without it those of the figures")
    report.add_argument("--small", action="store_true", help="of the small version that `run` trains")
    report.add_argument("-o", "--output", metavar="DIR", help="where to write a folder for the family (garden-report)")
    for verb in (listing, run, plan, report):
        verb.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    verbs = importlib.import_module("openipu_garden.commands").EXECUTE
    return int(verbs[arguments.verb](arguments))
