"""What a compiled program's text says: its loops, and what devices send each other.

XLA's own cost analysis counts the body of a loop once, and says nothing of collectives.
"""

import dataclasses
import math
import re
from collections import defaultdict
from collections.abc import Iterator

COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
)
_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%([\w.\-]+) = (.*?[\])}]) ([a-z][a-z\-]*)\(")
_ARRAY = re.compile(r"\b(pred|bf16|[sufc]\d+\w*)\[([\d,]*)\]")
_CALLED = re.compile(
    r"(?:body|condition|calls|to_apply|true_computation|false_computation)=%([\w.\-]+)"
)
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONDITION = re.compile(r"condition=%([\w.\-]+)")
_BOUND = re.compile(r"= [su](?:32|64)\[\]\S* constant\((\d+)\)")
_OPERAND = re.compile(r"%([\w.\-]+)")
# They move nothing by themselves.
_FREE = frozenset(
    (
        "parameter",
        "constant",
        "tuple",
        "get-tuple-element",
        "bitcast",
        "while",
        "conditional",
        "call",
        "after-all",
    )
)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line: name, bytes of the result, operation, and the line itself."""

    name: str
    size: int
    opcode: str
    line: str

    @property
    def operands(self) -> list[str]:
        """Names of what it reads."""
        start = self.line.index(f" {self.opcode}(") + len(self.opcode) + 2
        depth = 1
        for end in range(start, len(self.line)):
            depth += {"(": 1, ")": -1}.get(self.line[end], 0)
            if depth == 0:
                return _OPERAND.findall(self.line[start:end])
        return []


@dataclasses.dataclass(frozen=True)
class Program:
    """A program's computations, and how often each runs."""

    computations: dict[str, list[Instruction]]
    entry: str

    def runs(self) -> dict[str, int]:
        """Computation -> how often it runs in one call of the program."""
        counts: dict[str, int] = defaultdict(int)
        pending = [(self.entry, 1)]
        while pending:
            name, times = pending.pop()
            counts[name] += times
            for instruction in self.computations[name]:
                trips = self._trips(instruction)
                for called in _called(instruction.line):
                    pending.append((called, times * trips))
        return counts

    def _trips(self, instruction: Instruction) -> int:
        """How often a loop's body runs; 1 for all that is no loop.

        The TPU compiler doesn't say: a scan counts from 0 up to the one number in its
        condition.
        """
        if instruction.opcode != "while":
            return 1
        said = _TRIPS.search(instruction.line)
        if said:
            return int(said[1])
        condition = _CONDITION.search(instruction.line)[1]
        bounds = [
            int(found[1])
            for each in self.computations[condition]
            if (found := _BOUND.search(each.line))
        ]
        return bounds[0] if len(bounds) == 1 else 1


def parse(text: str) -> Program:
    """The program of `jax.stages.Compiled.as_text()`."""
    computations: dict[str, list[Instruction]] = {}
    entry = ""
    for line in text.splitlines():
        started = _COMPUTATION.match(line)
        if started:
            current = computations.setdefault(started[1], [])
            entry = started[1] if line.startswith("ENTRY") else entry
            continue
        found = _INSTRUCTION.match(line)
        if found:
            name, shape, opcode = found.groups()
            current.append(Instruction(name, _size(shape), opcode, line))
    return Program(computations, entry)


@dataclasses.dataclass(frozen=True)
class Collective:
    """All collectives of one kind in a step.

    Attributes:
      kind: one of `COLLECTIVES`.
      count: how many run on each device.
      bytes: of the arrays that are reduced, gathered or moved, whole, on each device.
    """

    kind: str
    count: int
    bytes: int


def collectives(program: Program) -> list[Collective]:
    """What the devices send each other in one call, loops counted in full."""
    counts: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for name, times in program.runs().items():
        for instruction in program.computations[name]:
            kind = instruction.opcode.removesuffix("-start")
            if kind not in COLLECTIVES:
                continue
            # A fusion that keeps a part of a sum is how a TPU scatters it.
            if name.startswith("all-reduce-scatter"):
                kind = "reduce-scatter"
            counts[kind] += times
            sizes[kind] += times * _moved(instruction, program.computations[name])
    return [Collective(kind, counts[kind], sizes[kind]) for kind in sorted(counts)]


def _moved(instruction: Instruction, others: list[Instruction]) -> int:
    """Bytes of the whole array: of what goes in or what comes out."""
    sizes = {other.name: other.size for other in others}
    read = sum(sizes.get(operand, 0) for operand in instruction.operands)
    # What starts a gather or permutation has its operands in its result too.
    made = instruction.size
    if instruction.opcode in ("all-gather-start", "collective-permute-start"):
        made -= read
    return max(read, made)


def bytes_by_loops(program: Program) -> float:
    """Bytes accessed with loops in full, over those with each body counted once.

    XLA's count, which is the latter, times this is what a call accesses. Bytes are
    operands and results of each instruction; of a fused slice, the slice.
    """
    runs, inside = program.runs(), set(fused(program))
    own = {name: accessed(program, name) for name in runs if name not in inside}
    return sum(runs[name] * size for name, size in own.items()) / sum(own.values())


def fused(program: Program) -> Iterator[str]:
    """Computations inside other instructions, whose arrays are in no memory."""
    for instructions in program.computations.values():
        for instruction in instructions:
            if instruction.opcode not in ("while", "conditional", "call"):
                yield from _called(instruction.line)


def accessed(program: Program, name: str) -> int:
    instructions = program.computations[name]
    sizes = {each.name: each.size for each in instructions}
    total = 0
    for each in instructions:
        if each.opcode in _FREE or each.opcode.endswith("-done"):
            continue
        if each.opcode == "fusion":
            (inner,) = _called(each.line)
            inside = program.computations[inner]
            total += _fusion_bytes(
                inside, each, [sizes.get(o, 0) for o in each.operands]
            )
        elif each.opcode in ("dynamic-slice", "slice", "gather"):
            total += 2 * sizes[each.name]
        elif each.opcode == "dynamic-update-slice":
            total += 2 * sizes[each.operands[1]]
        else:
            total += sizes[each.name]
            total += sum(sizes.get(operand, 0) for operand in each.operands)
    return total


def _fusion_bytes(
    inside: list[Instruction], fusion: Instruction, operands: list[int]
) -> int:
    """What a fusion reads and writes: of an array that it only slices, the slice."""
    sizes = {each.name: each.size for each in inside}
    users: dict[str, list[Instruction]] = defaultdict(list)
    for each in inside:
        for operand in each.operands:
            users[operand].append(each)
    total = fusion.size
    for each in inside:
        if each.opcode == "dynamic-update-slice" and each.size <= total:
            total += sizes[each.operands[1]] - each.size
        if each.opcode != "parameter":
            continue
        number = int(re.search(r"parameter\((\d+)\)", each.line)[1])
        read, using = operands[number], users[each.name]
        if using and all(_slices(user, each.name) for user in using):
            taken = (u.size for u in using if u.opcode == "dynamic-slice")
            read = min(read, sum(taken))
        total += read
    return total


def _slices(user: Instruction, name: str) -> bool:
    """Whether it takes from, or writes to, a part of the array `name` alone."""
    partial = ("dynamic-slice", "dynamic-update-slice")
    return user.opcode in partial and user.operands[0] == name


def _called(line: str) -> list[str]:
    names = _CALLED.findall(line)
    for branches in _BRANCHES.findall(line):
        names += _OPERAND.findall(branches)
    return names


def _size(shape: str) -> int:
    """Bytes of all arrays in a result's shape."""
    return sum(
        math.prod(int(side) for side in sides.split(",") if side) * _itemsize(dtype)
        for dtype, sides in _ARRAY.findall(shape)
    )


def _itemsize(dtype: str) -> int:
    if dtype == "pred":
        return 1
    return max(1, int(re.search(r"\d+", dtype)[0]) // 8)
