"""Changes to a program's file that keep its structure: what somebody would try who wants it to harm its reader.

In: the two parts of a file that `dump_program` wrote, and a source of random numbers. Out: the parts with one to three
changes. Half of the changes to a call are made consistent: what the call now returns is declared as it is, so that the
lie is not found out by its shape.
"""

import json

import torch

from openipu.admission.geometry import Geometry, infer_results
from openipu.graph.serial.operators import find_operator
from openipu.graph.serial.values import DTYPES
from openipu.ops.lookup import list_ops

WHOLE = [0, -1, 1, 2, 3, 7, 100, 2**20, 2**31, 2**33, 2**62, 2**63 - 1, -(2**63), 2**70]
NUMBERS = [0.0, -1.0, 0.5, 1e-300, 1e300, float("inf"), float("nan")]
ODD = [None, True, "x", "%0", "%1", "%99999", [], {}, {"tuple": []}, {"text": "sum"}, {"dtype": "int8"}, [[[[]]]]]
ODD += [{"dtype": "qint8"}, {"device": "meta"}, {"device": "cuda"}, {"complex": [1, 2]}, {"dict": [["%0", 1]]}]
NAMES = ["", "lambda", "x" * 20_000, "a.b", "__class__", "äöü", "p0"]
FOREIGN = [
    "aten::from_file",
    "aten::add_.Tensor",
    "aten::set_.source_Tensor",
    "openipu::call",
    "aten::_fused_adam",
    "a",
]
FOREIGN += [
    "aten::resize",
    "aten::_unsafe_index.Tensor",
    "aten::max_unpool2d",
    "aten::_ctc_loss",
    "aten::sum.dim_IntList",
]


def mutate(document, tensors, random):
    """One to three changes."""
    described = json.loads(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        change = random.choice(CHANGES)
        try:
            tensors = change(described, tensors, random) or tensors
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            break  # the change before left nothing to change here
    return json.dumps(described).encode(), tensors


def list_graphs(described):
    found = [described["micro"], *([described["update"]] if isinstance(described.get("update"), dict) else [])]
    for graph in found:
        for row in graph["nodes"]:
            for content in row[1].values() if isinstance(row[1], dict) else ():
                if isinstance(content, list):
                    found.extend(item for item in content if isinstance(item, dict) and "nodes" in item)
    return found


def pick_graph(described, random):
    return random.choice(list_graphs(described))


def pick_call(graph, random):
    calls = [row for row in graph["nodes"] if type(row[1]) is int and row[1] >= 0]
    return random.choice(calls) if calls else None


def pick_value(random):
    return random.choice(random.choice((WHOLE, NUMBERS, ODD)))


def change_argument(described, tensors, random):
    graph = pick_graph(described, random)
    row = pick_call(graph, random)
    if row is None or not isinstance(row[2], list):
        return
    where = random.randrange(len(row[2]) + 1)
    held = row[2][where] if where < len(row[2]) else None
    if isinstance(held, list) and held and random.random() < 0.7:
        held[random.randrange(len(held))] = pick_value(random)
    elif isinstance(held, str) and random.random() < 0.7:
        row[2][where] = f"%{random.randrange(len(graph['nodes']))}"
    elif random.random() < 0.1:
        row[3][random.choice(("out", "dtype", "generator", "self", "alpha", "device"))] = pick_value(random)
    elif where < len(row[2]) and random.random() < 0.1:
        del row[2][where]
    else:
        row[2][where : where + 1] = [pick_value(random)]
    if random.random() < 0.6:
        declare_truth(described, graph, row)


def change_operator(described, tensors, random):
    graph = pick_graph(described, random)
    row = pick_call(graph, random)
    if row is None:
        return
    known = [name.replace(".", "::", 1) for name in sorted(list_ops())]
    name = random.choice(FOREIGN) if random.random() < 0.3 else random.choice(known)
    described["operators"].append(name)
    row[1] = len(described["operators"]) - 1
    declare_truth(described, graph, row)


def declare_truth(described, graph, row):
    """Declare what the changed call returns, if it returns anything."""
    try:
        values = [read_value(described, item[4]) for item in graph["nodes"]]

        def resolve(item):
            if isinstance(item, str):
                return values[int(item[1:])]
            if isinstance(item, list):
                return [resolve(entry) for entry in item]
            if isinstance(item, dict):
                ((kind, content),) = item.items()
                return {"dtype": DTYPES.get(content), "tuple": content, "text": content}.get(kind)
            return item

        args = [resolve(item) for item in row[2]]
        found = infer_results(
            find_operator(described["operators"][row[1]]), args, {key: resolve(item) for key, item in row[3].items()}
        )
        if len(found.results) > 1000:
            return
        numbers = []
        for geometry in found.results:
            name = str(geometry.dtype).removeprefix("torch.")
            described["values"].append([name, list(geometry.shape), list(geometry.stride)])
            numbers.append(len(described["values"]) - 1)
        row[4] = [False, *numbers] if found.listed else numbers[0]
    except Exception:
        return  # then the declaration stays a lie


def read_value(described, number):
    if type(number) is not int or not 0 <= number < len(described["values"]):
        return None
    dtype, shape, stride = described["values"][number]
    return Geometry.read(torch.empty_strided(shape, stride, dtype=DTYPES[dtype], device="meta"))


def change_declared(described, tensors, random):
    row = random.choice(described["values"])
    where = random.randrange(3)
    if where == 0:
        row[0] = random.choice([*DTYPES, "qint8", "load", None])
    elif row[where] and isinstance(row[where], list):
        row[where][random.randrange(len(row[where]))] = pick_value(random)
    else:
        row[where] = pick_value(random)


def change_node(described, tensors, random):
    graph = pick_graph(described, random)
    nodes = graph["nodes"]
    where = random.randrange(len(nodes))
    match random.randrange(6):
        case 0:
            del nodes[where]
        case 1:
            nodes.insert(where, json.loads(json.dumps(random.choice(nodes))))
        case 2:
            other = random.randrange(len(nodes))
            nodes[where], nodes[other] = nodes[other], nodes[where]
        case 3:
            nodes[where][random.randrange(6)] = pick_value(random)
        case 4:
            nodes[where][0] = random.choice(NAMES)
        case 5:
            nodes[where] = pick_value(random)


def change_signature(described, tensors, random):
    graph = pick_graph(described, random)
    rows = graph[random.choice(("inputs", "outputs"))]
    if not rows:
        return
    where = random.randrange(len(rows))
    match random.randrange(4):
        case 0:
            del rows[where]
        case 1:
            rows.append(list(rows[where]))
        case 2:
            row = random.choice(rows)
            row[random.randrange(len(row))] = pick_value(random)
        case 3:
            kinds = ["seed", "state", "gradient", "tap", "loss", "hyper", "buffer", "constant", "output", "input"]
            rows[where][int(rows is graph["inputs"])] = random.choice(kinds)


def change_call(described, tensors, random):
    """Loops and branches: how often, how deep, over what."""
    graph = pick_graph(described, random)
    rows = [row for row in graph["nodes"] if isinstance(row[1], dict) and ("loop" in row[1] or "branch" in row[1])]
    if not rows:
        return change_argument(described, tensors, random)
    row = random.choice(rows)
    ((kind, content),) = row[1].items()
    match random.randrange(4):
        case 0 if kind == "loop":
            content[2] = random.choice([*WHOLE, 1000])
        case 1:
            content[random.randrange(len(content))] = pick_value(random)
        case 2 if kind == "loop":
            body = json.loads(json.dumps(content[1]))
            for _ in range(random.choice((1, 3, 30))):
                inner = [row[0], {"loop": [content[0], content[1], *content[2:]]}, *row[2:]]
                content[1] = {**body, "nodes": [*body["nodes"], inner]}
        case _:
            random.shuffle(row[2])
    return None


def change_rest(described, tensors, random):
    key = random.choice(sorted(set(described) - {"micro"}))
    held = described[key]
    if isinstance(held, list) and held and random.random() < 0.8:
        where = random.randrange(len(held))
        if isinstance(held[where], list) and held[where] and random.random() < 0.7:
            held[where][random.randrange(len(held[where]))] = pick_value(random)
        else:
            held[where] = pick_value(random)
    else:
        described[key] = pick_value(random)


def change_tensors(described, tensors, random):
    """The bytes of constants, and what stands before them."""
    header, _, content = tensors.partition(b"\n")
    listed = json.loads(header)
    rows = listed["tensors"]
    if not rows or random.random() < 0.2:
        return tensors[: random.randrange(len(tensors) + 1)]
    if random.random() < 0.2 and content:
        where = random.randrange(len(content))
        content = content[:where] + bytes([random.randrange(256)]) + content[where + 1 :]
    elif random.random() < 0.2:
        rows.append(list(random.choice(rows)))
    else:
        row = random.choice(rows)
        where = random.randrange(5)
        row[where] = random.choice([*DTYPES, "qint8"]) if where == 1 else pick_value(random)
    return json.dumps(listed).encode() + b"\n" + content


CHANGES = [change_argument] * 6 + [change_operator] * 3 + [change_call] * 2
CHANGES += [change_declared, change_node, change_node, change_signature, change_rest, change_tensors]
