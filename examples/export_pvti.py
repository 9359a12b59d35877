"""Writes a `.pvti` file as Chrome trace events, so that `openipu trace`, Perfetto and others can show it.

The layout of the files that Graphcore's libpvti writes is not public, but its SDK reads them: run this where the SDK
is, with its `pva`. Nothing of openipu is needed there, and nothing but the standard library besides.

    python export_pvti.py trace.pvti trace.json
    openipu trace trace.json --open
"""

import json
import sys

import pva


def list_events(events, pid, tid):
    """Each event, then those inside it."""
    for event in events:
        channel = getattr(event.channel, "name", event.channel)
        yield {
            "ph": "X",
            "name": str(event.label),
            "cat": str(channel),
            "pid": pid,
            "tid": tid,
            "ts": float(event.timestamp),
            "dur": float(event.duration),
        }
        yield from list_events(event.children(), pid, tid)


def main(source, target):
    trace = pva.openTrace(source)
    found = []
    for process in trace.processes:
        for thread in process.threads:
            found.extend(list_events(thread.events, int(process.pid), int(thread.tid)))
    with open(target, "w") as file:
        json.dump({"traceEvents": found}, file)
    print(len(found), "events written to", target)


if __name__ == "__main__":
    main(*sys.argv[1:3])
