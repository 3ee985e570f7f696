"""The values of a TTIR, each with the values that it is computed from."""

import re
from dataclasses import dataclass, field


@dataclass
class TtirValue:
    """A value of the TTIR: the operation that makes it, and that operation's operands."""

    operation: str
    operands: list["TtirValue"] = field(default_factory=list)
    text: str = ""
    """The operation's line after its name; an argument's type and attributes."""
    name: str = ""
    """The name of an argument; empty for other values."""
    condition: "TtirValue | None" = None
    """For a branch's result: what decides whether it is the first operand or the second."""

    @property
    def loads_a_block(self) -> bool:
        return self.operation == "tt.load" and "tensor<" in self.text


@dataclass(frozen=True)
class CountedLoop:
    """A scf.for."""

    row: int
    """Its line in the text, from 1 on."""
    bounds: list[TtirValue]
    """Its start, its stop and its step."""
    around: "CountedLoop | None"
    """The innermost scf.for that it stands in."""


_ARGUMENT = re.compile(r"%(\w+): ((?:[^(){}%]|\{[^}]*\})*)")
_OPERATION = re.compile(r'(?:(%\w+)(?::(\d+))? = )?"?([a-z]\w*\.[\w.]+)"?(.*)')
_LOOP = re.compile(r" (%\w+) = (%[\w#]+) to (%[\w#]+) step (%[\w#]+)")
_CARRIED = re.compile(r"(%\w+) = (%[\w#]+)")
_GIVEN = re.compile(r"(%\w+): ")
_USED = re.compile(r"%\w+(?:#\d+)?")
EITHER, SUM = "either of", "arith.addi"
TOUCHES_MEMORY = ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas")


class Values:
    """What a TTIR does to memory, each time with all that its addresses and its mask come from."""

    def __init__(self, ttir: str) -> None:
        self.accesses: list[tuple[int, TtirValue]] = []
        """The loads, stores and atomics, each behind its line in the text, from 1 on."""
        self.loops: list[CountedLoop] = []
        self.arguments: list[TtirValue] = []
        """What the kernel takes, in order."""
        self._names: dict[str, TtirValue] = {}
        # For each open region: the names from outside, what its yield gives values to, and the loop
        # that it stands in or is.
        self._regions: list[tuple[dict[str, TtirValue], list[TtirValue], CountedLoop | None]] = []
        # The results of each scf.while whose condition is read, and what the condition passes on.
        self._whiles: list[list[TtirValue]] = []
        self._passed: list[TtirValue] = []
        for number, line in enumerate(ttir.split("\n"), start=1):
            self._line = number
            whole = "tt.func" in line or line.lstrip().startswith("^")
            self._read(line.strip() if whole else line.split(" loc(")[0].strip())

    @property
    def loads(self) -> list[TtirValue]:
        """The loads of blocks."""
        return [value for _, value in self.accesses if value.loads_a_block]

    def _read(self, line: str) -> None:
        if line.startswith("}") and self._regions:
            outside, yielded, _ = self._regions.pop()
            self._names = dict(outside)
            if line.endswith("{"):  # } else {
                self._open(yielded)
        elif line.startswith("tt.func"):
            for name, text in _ARGUMENT.findall(line):
                self._names[f"%{name}"] = argument = TtirValue("argument", text=text, name=name)
                if "public" in line:
                    self.arguments.append(argument)
            self._open([])
        elif line.startswith("^"):  # what the body of a while is given
            self._names |= dict(zip(_GIVEN.findall(line), self._passed, strict=False))
            self._passed = []
        elif match := _OPERATION.match(line):
            self._operation(match[1], int(match[2] or 1), match[3], match[4])
            if line.endswith("{") and not match[3].startswith("scf."):
                self._open([])
        elif line.endswith("{"):
            self._open([])

    def _open(self, yielded: list[TtirValue], loop: CountedLoop | None = None) -> None:
        self._regions.append((self._names, yielded, loop or self._loop))
        self._names = dict(self._names)

    @property
    def _loop(self) -> CountedLoop | None:
        """The innermost loop around the line that is read."""
        return self._regions[-1][2] if self._regions else None

    def _operation(self, result: str | None, count: int, name: str, text: str) -> None:
        operands = [self._value(used) for used in _USED.findall(text.split(" : ")[0])]
        if name == "scf.yield" and self._regions:
            for target, value in zip(self._regions[-1][1], operands, strict=False):
                target.operands.append(value)
        elif name in ("scf.for", "scf.if"):
            self._branching(result, count, name, text)
        elif name == "scf.while":
            self._while(result, count, text)
        elif name == "scf.condition" and self._whiles:
            self._passed = operands[1:]
            for each, value in zip(self._whiles.pop(), self._passed, strict=False):
                each.operands.append(value)
        else:
            value = TtirValue(name, operands, text)
            if result:
                self._names[result] = value
            if name in TOUCHES_MEMORY:
                self.accesses.append((self._line, value))

    def _branching(self, result: str | None, count: int, name: str, text: str) -> None:
        """A loop's or a branch's results, and what its region sees of them."""
        inside: dict[str, TtirValue] = {}
        results = [TtirValue(EITHER) for _ in range(count if result else 0)]
        opened = None
        if name == "scf.if" and (used := _USED.match(text.strip())):
            for each in results:
                each.condition = self._value(used[0])
        if (loop := _LOOP.match(text)) and name == "scf.for":
            bounds = [self._value(loop[part]) for part in (2, 3, 4)]
            opened = CountedLoop(self._line, bounds, self._loop)
            self.loops.append(opened)
            # What it counts is the start and a number of steps.
            inside[loop[1]] = TtirValue(SUM, [self._value(loop[2]), self._value(loop[4])])
            carried = _CARRIED.findall(text.partition("iter_args(")[2].split(") ->")[0])
            for target, (inner, start) in zip(results, carried, strict=False):
                target.operands.append(self._value(start))
                inside[inner] = target
        for number, value in enumerate(results):
            self._names[f"{result}#{number}" if count > 1 else str(result)] = value
        self._open(results, opened)
        self._names |= inside

    def _while(self, result: str | None, count: int, text: str) -> None:
        """A while loop's results, and what its condition sees of what it carries."""
        results = [TtirValue(EITHER) for _ in range(count if result else 0)]
        carried = _CARRIED.findall(text.split(" : ")[0])
        inside = {inner: TtirValue(EITHER, [self._value(start)]) for inner, start in carried}
        for number, value in enumerate(results):
            self._names[f"{result}#{number}" if count > 1 else str(result)] = value
        self._whiles.append(results)
        self._open([*inside.values()])
        self._names |= inside

    def _value(self, name: str) -> TtirValue:
        return self._names.get(name) or TtirValue("unknown")
