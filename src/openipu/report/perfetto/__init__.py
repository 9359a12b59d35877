"""The modelled execution as a trace that Perfetto opens: every step on its IPU, live memory, and a pipeline's ticks.

In: a `Profile`. Out: a file in Perfetto's protobuf format, compressed where its name ends in `.gz`.
"""

from openipu.report.perfetto.modelled import write_perfetto

__all__ = ["write_perfetto"]
