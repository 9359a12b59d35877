"""A guess of a vertex's cycles, from the instructions that its code executes.

In: assembly of codelets, in which the compiler marked each basic block (`-fsanitize-coverage=trace-pc`). Out: the same
with each mark replaced by an addition of the block's cycles to a counter.

The rule. A worker issues one instruction for its main pipeline and one for its floating-point pipeline in a cycle. A
block of scalar code costs the larger of
    loads + stores + integer arithmetic + comparisons and branches, and
    floating-point arithmetic.
Moves between registers, and to and from the stack, cost nothing: they come from marking the blocks. A call that leaves
the codelet (`expf`) costs ten. It is a guess: the compiler for tiles vectorises, and has loops without branches.
"""

from __future__ import annotations

import re

CALL_CYCLES = 10
COUNTER_FUNCTION = "openipu_find_counter"

_MARK = "__sanitizer_cov_trace_pc"
_LINE = re.compile(r"^\t([a-z][\w.]*)(?:\t(.*))?$")
_MEMORY = re.compile(r"[-\w.+@]*\((%\w+)?[^)]*\)")
_FLOAT = re.compile(
    r"^v?(add|sub|mul|div|sqrt|min|max|ucomi|comi|cmp\w*|and|andn|or|xor|cvt\w+|round)(ss|sd|ps|pd|si2ss|ss2si)\w*$"
)
_CONVERSION = re.compile(r"^v?cvt")
_MOVE = re.compile(r"^v?(mov|push|pop|cltq|cwtl|cqto|cltd|cdq|endbr|nop|leave|ret|xchg|cmov|set)")
_INTEGER = re.compile(
    r"^(add|sub|imul|mul|idiv|div|neg|not|and|or|xor|sh[lr]d?|sa[lr]|ro[lr]|lea|inc|dec|cmp|test|bt\w*|adc|sbb|bs[fr]|popcnt|[lt]zcnt)[bwlq]?$"
)
_BRANCH = re.compile(r"^j\w+$")


def count_instructions(assembly: str) -> str:
    """Assembly that counts its own cycles, and hands out the counter."""
    lines = assembly.splitlines()
    marks = [index for index, line in enumerate(lines) if f"call\t{_MARK}" in line]
    ends = [*marks[1:], len(lines)]
    for mark, end in zip(marks, ends, strict=True):
        cycles = _price_block(lines[mark + 1 : end])
        lines[mark] = f"\taddq\t${cycles}, openipu_cycles(%rip)"
    return "\n".join(lines) + _COUNTER


def _price_block(lines: list[str]) -> int:
    main = floating = 0
    for line in lines:
        if line.startswith("\t.cfi_startproc"):  # the prologue of the next function
            break
        found = _LINE.match(line)
        if found is None:
            continue
        name, operands = found.group(1), found.group(2) or ""
        if name == "call":
            main += CALL_CYCLES
            continue
        main += _count_memory(name, operands)
        if _FLOAT.match(name) or _CONVERSION.match(name):
            floating += 1
        elif _BRANCH.match(name) or (_INTEGER.match(name) and not _MOVE.match(name)):
            main += 1
    return max(main, floating)


def _count_memory(name: str, operands: str) -> int:
    """Loads and stores outside the stack."""
    if name.startswith(("lea", "nop", "j", "push", "pop")):
        return 0
    places = [place.group(1) or "" for place in _MEMORY.finditer(operands)]
    return sum(1 for base in places if base not in ("%rsp", "%rbp", "%esp", "%ebp"))


_COUNTER = f"""
\t.local\topenipu_cycles
\t.comm\topenipu_cycles,8,8
\t.text
\t.globl\t{COUNTER_FUNCTION}
\t.type\t{COUNTER_FUNCTION}, @function
{COUNTER_FUNCTION}:
\tleaq\topenipu_cycles(%rip), %rax
\tret
\t.section\t.note.GNU-stack,"",@progbits
"""
