"""Write an exported program as a network: operators with costs, without views, constants and what nobody reads.

* A view, or an operator that does nothing, is its input: readers read what it is a view of, in as many numbers as both
  have.
* What depends on no input and no parameter (positions, masks, tables of angles) is a constant: it is computed once,
  and each module that reads it holds a copy. So are buffers that the program does not write to. A buffer that it writes
  to is a state, and the operators that use it share a device.
* Operators that use the same parameter share a device; the first one owns it, or with `Tied.COPY` each a copy.
* An operator that writes to its input (`relu_`) is read in place of what it wrote to.
* A subgraph that always runs once is written out; those of `cond`, `while_loop`, `scan` and `map` are one operator: the
  branch with more flops, one turn of a loop, all steps of a scan.

Numbers of floating-point formats count as elements of the format that is asked for, wider or narrower ones than most
parameters in proportion; others (tokens, masks) as many elements as have their bytes.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from solvers.importers.network import Network, Op
from solvers.importers.torch_export import operators as known
from solvers.importers.torch_export.archive import REMEDY
from solvers.importers.torch_export.program import Call, Graph, InputKind, Program, Ref, Tensor
from solvers.importers.workload import Tied
from solvers.model.errors import SourceError

INLINE = known.names(
    "wrap wrap_with_set_grad_enabled wrap_with_autocast wrap_activation_checkpoint tag_activation_checkpoint "
    "invoke_subgraph hints_wrapper strict_mode inline_asm_elementwise"
)
"""Operators of a subgraph that always runs once."""

REPEATS = {"scan": 2, "map_impl": 1, "map": 1, "associative_scan": 1}
"""Operators whose subgraph runs once for each row of a tensor: which argument that tensor is the first of."""


class Root(Enum):
    """What a tensor comes from."""

    OPERATOR = auto()
    PARAMETER = auto()
    CONSTANT = auto()
    STATE = auto()
    INPUT = auto()


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the program: (a part of) what `root` and `key` name, of which `elements` are read.

    `output` names it among several that its operator writes.
    """

    root: Root
    key: Any
    tensor: Tensor
    elements: int
    output: str = ""


@dataclass(frozen=True, slots=True)
class Translated:
    """A network, the module path of each of its operators, and what is to be said of it.

    `views` are the calls that give the output of an operator another shape, and are none: their names, and its number.
    """

    network: Network
    modules: tuple[str, ...]
    unknown: tuple[str, ...]
    loops: tuple[str, ...]
    unused_parameters: int
    num_constants: int
    base_format: str
    views: tuple[tuple[str, int], ...]


class Translator:
    """Translates one graph; `element_bytes` is what an element of the network takes."""

    def __init__(self, base_bytes: int, element_bytes: float, tied: Tied) -> None:
        self.base_bytes, self.element_bytes, self.tied = base_bytes, element_bytes, tied
        self.ops: list[Op] = []
        self.modules: list[str] = []
        self.env: dict[str, Value] = {}
        self.unknown: Counter[str] = Counter()
        self.loops: Counter[str] = Counter()
        self.held: dict[str, set[Any]] = {}  # of each module, the constants that it holds
        self.users: dict[Any, list[int]] = {}  # of each parameter and state, the operators that use it
        self.latest: dict[int, int] = {}  # of an operator, the one that wrote to its output
        self.written: dict[Any, int] = {}  # of a state or constant, the operator that wrote to it
        self.source: dict[Any, int] = {}  # of an input, its operator
        self.views: list[tuple[str, int]] = []
        self.num_constants = 0

    def size(self, tensor: Tensor) -> int:
        """Return the elements of a tensor as the network counts them."""
        if tensor.is_floating:
            return math.ceil(tensor.elements * tensor.element_bytes / self.base_bytes)
        return math.ceil(tensor.elements * tensor.element_bytes / self.element_bytes)

    def bind(self, name: str, root: Root, key: Any, tensor: Tensor, output: str = "") -> None:
        """Give a tensor's name a meaning."""
        self.env[name] = Value(root, key, tensor, self.size(tensor), output)

    def run(self, graph: Graph, outer_module: str = "") -> None:
        """Translate the operators of a graph whose inputs are bound."""
        needed = set(graph.outputs)
        live: list[Call] = []
        for call in reversed(graph.calls):
            if _writes(call) or any(name in needed for name in call.outputs):
                live.append(call)
                needed.update(call.tensors)
        for call in reversed(live):
            self._call(call, graph, needed, call.module or outer_module)

    def _call(self, call: Call, graph: Graph, needed: set[str], module: str) -> None:
        values = [self._value(name, call) for name in call.tensors]
        outputs = [(name, graph.tensors[name]) for name in call.outputs if name in graph.tensors]
        namespace, _, operator = call.operator.rpartition(".")
        if call.subgraphs and operator in INLINE:
            self._inline(call, values, module)
        elif not outputs:
            return
        elif self._is_view(operator, namespace, call, values, outputs[0][1]):
            if values[0].root is Root.OPERATOR:
                self.views.append((call.name, self._operator(int(values[0].key))))
            for name, tensor in outputs:
                root = values[0]
                self.env[name] = replace(root, tensor=tensor, elements=min(self.size(tensor), root.elements))
        elif (
            not call.subgraphs and all(value.root is Root.CONSTANT for value in values) and operator not in known.RANDOM
        ):
            self.num_constants += 1
            for name, tensor in outputs:
                self.bind(name, Root.CONSTANT, (call.name, name), tensor)
        else:
            read = [item for item in outputs if item[0] in needed] or outputs[:1]
            v = self._add(call, operator, namespace, values, read, module)
            names = {name: output for (name, _), (output, _) in zip(read, self.ops[v].outputs, strict=False)}
            for name, tensor in outputs:
                self.bind(name, Root.OPERATOR, v, tensor, names.get(name, ""))
            if _writes(call):
                self._write(values[0], v)

    def _value(self, name: str, call: Call) -> Value:
        if name not in self.env:
            raise SourceError(
                f"The operator {call.name[:60]!r} reads {name[:60]!r}, which no operator before it writes; {REMEDY}."
            )
        value = self.env[name]
        if value.root is Root.CONSTANT and value.key in self.written:
            return replace(value, root=Root.OPERATOR, key=self.written[value.key])
        return value

    def _is_view(self, operator: str, namespace: str, call: Call, values: Sequence[Value], output: Tensor) -> bool:
        if not values or namespace not in ("aten", "prims"):
            return False
        first = values[0].tensor
        if operator in known.VIEWS:
            return True
        if operator in known.VIEWS_IF_CONTIGUOUS:
            return first.is_contiguous or (operator != "contiguous" and first.shape == output.shape)
        if operator in known.NOTHING_IN_INFERENCE:
            return call.get("train") is not True
        return operator in known.CASTS and first.dtype == output.dtype

    def _write(self, target: Value, v: int) -> None:
        """Let operator v be read where what it wrote to was."""
        if target.root is Root.OPERATOR:
            self.latest[self._operator(target.key)] = v
        elif target.root is Root.INPUT:
            self.latest[self.source[target.key]] = v
        elif target.root in (Root.STATE, Root.CONSTANT):
            self.written[target.key] = v

    def _operator(self, v: int) -> int:
        while v in self.latest:
            v = self.latest[v]
        return v

    def _input_of(self, value: Value, module: str) -> int | None:
        """Return the operator that a tensor comes from: none for weights and constants."""
        if value.root is Root.OPERATOR:
            return self._operator(int(value.key))
        if value.root is Root.STATE:
            return self.written.get(value.key)
        if value.root is not Root.INPUT:
            return None
        if value.key not in self.source:
            name, tensor = value.key
            self.source[value.key] = len(self.ops)
            self._append(Op(**_NO_COST | {"name": f"input {name}", "output_elements": self.size(tensor)}), module)
        return self._operator(self.source[value.key])

    def _append(self, op: Op, module: str) -> int:
        self.ops.append(op)
        self.modules.append(module)
        return len(self.ops) - 1

    def _add(
        self, call: Call, operator: str, namespace: str, values: Sequence[Value],
        outputs: Sequence[tuple[str, Tensor]], module: str,
    ) -> int:  # fmt: skip
        written = sum(self.size(tensor) for _, tensor in outputs)
        flops = internal = repeated = 0.0
        backward: tuple[float, float] | None = None
        is_priced = (namespace == "aten" and operator in known.PRICED) or namespace == "prims"
        if call.subgraphs:
            flops, internal = self._looped(call, operator)
        elif not is_priced:
            self.unknown[call.operator] += 1
        elif operator in known.FLOPS:
            flops = self._flops(call, operator, outputs[0][1])
        reads = [value.elements for value in values]
        if reads and operator in known.LOOKUPS:
            reads[0] = min(reads[0], written)
        inputs = [self._input_of(value, module) for value in values]
        if operator in known.RECURRENT:
            learns_start = any(u is not None and self.ops[u].has_backward for u in inputs[1:])
            internal, repeated, backward = self._recurrence(call, operator, values, flops, learns_start=learns_start)
        trained = [value for value in values if value.root is Root.PARAMETER]
        weight_reads = sum(n for n, value in zip(reads, values, strict=True) if value.root is Root.PARAMETER)
        states = {value.key: value.elements for value in values if value.root is Root.STATE}
        v = len(self.ops)
        owned = self._owned(trained)
        cache = sum(n for key, n in states.items() if key not in self.users)
        for value in (*trained, *(value for value in values if value.root is Root.STATE)):
            self.users.setdefault(value.key, []).append(v)
        sources = tuple(dict.fromkeys(u for u in inputs if u is not None))
        has_backward = (
            outputs[0][1].is_floating
            and operator not in known.WITHOUT_GRADIENT
            and (any(value.tensor.is_floating for value in trained) or any(self.ops[u].has_backward for u in sources))
        )
        needing = sum(
            value.root is Root.PARAMETER or (u is not None and self.ops[u].has_backward)
            for value, u in zip(values, inputs, strict=True)
        )
        keeps_inputs, keeps_output = self._kept(operator, is_priced=is_priced, is_dense=flops > 0, sources=len(sources),
                                                others=len(values) - len(sources))  # fmt: skip
        tensors = tuple((f"output {i + 1}", self.size(tensor)) for i, (_, tensor) in enumerate(outputs))
        # What was written to by another operator since then is that one's only output.
        from_several = {
            (u, value.output)
            for value, u in zip(values, inputs, strict=True)
            if u is not None and u == value.key and value.output
        }
        query_key = [self._shape(call, name) for name in ("query", "key")] if operator in known.FUSED_ATTENTION else []
        return self._append(
            Op(
                name=f"{module} {call.name}".strip(),
                layer="",
                inputs=sources,
                flops=flops,
                output_elements=written,
                parameters=owned,
                internal_elements=math.ceil(internal),
                weight_reads=math.ceil(weight_reads + repeated),
                input_reads=sum(
                    n for n, value in zip(reads, values, strict=True) if value.root not in (Root.PARAMETER, Root.STATE)
                ),
                is_dense=flops > 0 and needing > 1,
                keeps_inputs=keeps_inputs and has_backward,
                keeps_output=keeps_output and has_backward,
                passes_gradient=operator in known.ADDS and has_backward,
                has_backward=has_backward,
                cache_elements=cache,
                cache_reads=sum(states.values()),
                recomputed_flops=known.scores(*query_key) if query_key else 0.0,
                backward_flops=backward,
                buffer_elements=self._held(values, module),
                outputs=tensors if len(tensors) > 1 else (),
                reads=tuple(sorted(from_several)),
            ),
            module,
        )

    def _kept(self, operator: str, *, is_priced: bool, is_dense: bool, sources: int, others: int) -> tuple[bool, bool]:
        """Return whether the backward pass reads the inputs, and the output."""
        if operator in known.FUSED_ATTENTION or operator in known.RECURRENT or not is_priced:
            return True, True
        if is_dense:
            return True, False
        if operator in known.SCALED and sources + others == 1:
            return False, False
        return operator in known.KEEP_INPUTS, operator in known.KEEP_OUTPUT

    def _owned(self, trained: Sequence[Value]) -> int:
        """Return how many parameters the next operator owns: those that none before it uses, or copies of all."""
        keys = {value.key for value in trained if self.tied is Tied.COPY or value.key not in self.users}
        return sum(tensor.elements for _, tensor in keys)

    def _held(self, values: Sequence[Value], module: str) -> int:
        """Return the elements of constants that an operator is the first of its module to read."""
        held = self.held.setdefault(module, set())
        new = {value.key: value for value in values if value.root is Root.CONSTANT and value.key not in held}
        held.update(new)
        return sum(value.elements for value in new.values())

    def _flops(self, call: Call, operator: str, output: Tensor) -> float:
        def get(*names: str) -> Any:
            value = call.get(*names)
            if isinstance(value, Ref):
                return self.env[value.name].tensor.shape
            if isinstance(value, list) and any(isinstance(entry, Ref) for entry in value):
                return [self.env[entry.name].tensor.shape for entry in value if isinstance(entry, Ref)]
            return value

        try:
            return known.FLOPS[operator](get, output.shape)
        except (TypeError, ValueError, IndexError, KeyError, StopIteration, AttributeError) as error:
            reason = f": {error}" if isinstance(error, known.EquationError) else ""
            raise SourceError(
                f"The operator {call.name[:60]!r} ({call.operator}) has arguments that its flops cannot be derived "
                f"from{reason}; {REMEDY}."
            ) from None

    def _shape(self, call: Call, name: str) -> tuple[int, ...]:
        value = call.get(name)
        return self.env[value.name].tensor.shape if isinstance(value, Ref) else ()

    def _recurrence(
        self, call: Call, operator: str, values: Sequence[Value], flops: float, *, learns_start: bool
    ) -> tuple[float, float, tuple[float, float] | None]:
        """Return the elements of a recurrent layer's gates and of its weights read again at every step, and flops.

        These are of its backward pass, with and without the gradient of its input. A first step needs none of the state
        before it, unless that is learned too.
        """
        x = values[0].tensor.shape
        if len(x) < 2:
            return 0.0, 0.0, None
        steps = x[1] if len(x) == 3 and call.get("batch_first") is True else x[0]
        weights = [value.tensor.shape for value in values if value.root is Root.PARAMETER]
        matrices = [shape for shape in weights if len(shape) == 2]
        # A projection has as many rows as the state that steps hand on; the next layer's matrix has four times more.
        has_projection = operator == "lstm" and len(matrices) > 2 and matrices[2][0] == matrices[1][1]
        per_layer, directions = 3 if has_projection else 2, 2 if call.get("bidirectional") is True else 1
        first, hidden = matrices[: directions * per_layer : per_layer], matrices[1::per_layer]
        rows = math.prod(x[:-1])
        read_again = sum(map(math.prod, hidden))
        of_states = flops if learns_start else flops - 2.0 * rows / max(steps, 1) * read_again
        of_input = 2.0 * rows * sum(map(math.prod, first))
        backward = (flops + of_states, flops + of_states - of_input)
        return float(rows * sum(shape[0] for shape in hidden)), float(read_again * (steps - 1)), backward

    def _inline(self, call: Call, values: Sequence[Value], module: str) -> None:
        """Write out a subgraph in place of the operator that calls it."""
        graph = call.subgraphs[0]
        if len(graph.inputs) != len(values) or len(graph.outputs) != len(call.outputs):
            raise SourceError(f"The operator {call.name[:60]!r} does not fit its subgraph; {REMEDY}.")
        outside, self.env = self.env, dict(zip(graph.inputs, values, strict=True))
        self.run(graph, module)
        results = [self.env.get(name) for name in graph.outputs]
        self.env = outside
        for name, result in zip(call.outputs, results, strict=True):
            if result is not None:
                self.env[name] = result

    def _looped(self, call: Call, operator: str) -> tuple[float, float]:
        """Return flops and inner elements of an operator with subgraphs."""
        self.loops[operator] += 1
        parts = []
        for graph in call.subgraphs:
            inner = Translator(self.base_bytes, self.element_bytes, self.tied)
            for name in graph.inputs:
                if name in graph.tensors:
                    inner.bind(name, Root.INPUT, (name, graph.tensors[name]), graph.tensors[name])
            inner.run(graph)
            self.unknown += inner.unknown
            self.loops += inner.loops
            ops = [op for op in inner.ops if not op.is_view]
            elements = sum(op.output_elements + op.internal_elements for op in ops)
            parts.append((sum(op.flops for op in ops), float(elements)))
        if operator == "cond":
            return max(parts)
        repeats = 1
        if operator in REPEATS and len(call.arguments) > REPEATS[operator]:
            rows = call.arguments[REPEATS[operator]][1]
            first = rows[0] if isinstance(rows, list) and rows else rows
            shape = self.env[first.name].tensor.shape if isinstance(first, Ref) else ()
            repeats = shape[0] if shape else 1
        return repeats * sum(flops for flops, _ in parts), repeats * sum(elements for _, elements in parts)

    def tied_to(self) -> dict[int, int]:
        """Return for each operator that shares a parameter or a state the first one of those it shares with."""
        first: dict[int, int] = {}

        def root(v: int) -> int:
            while first.get(v, v) != v:
                v = first[v]
            return v

        for key, users in self.users.items():
            if self.tied is Tied.SHARE or isinstance(key, str):  # a state, which is never copied
                for v in users[1:]:
                    a, b = sorted((root(users[0]), root(v)))
                    first[b] = a
        return {v: root(v) for v in first if root(v) != v}


_NO_COST: dict[str, Any] = {
    "layer": "", "inputs": (), "flops": 0.0, "parameters": 0, "internal_elements": 0, "weight_reads": 0,
    "input_reads": 0, "is_dense": False, "keeps_inputs": False, "keeps_output": False, "passes_gradient": False,
    "has_backward": False, "is_view": True,
}  # fmt: skip


def translate(program: Program, name: str, element_bytes: float, tied: Tied) -> Translated:
    """Return the network of a program; SourceError where it has no operator that costs anything."""
    tensors = program.graph.tensors
    parameters = [spec for spec in program.inputs if spec.kind is InputKind.PARAMETER]
    widths: Counter[tuple[int, int]] = Counter()
    for spec in parameters:
        tensor = tensors[spec.name]
        if tensor.is_floating:
            widths[tensor.element_bytes, tensor.dtype] += tensor.elements
    (base_bytes, dtype) = widths.most_common(1)[0][0] if widths else (4, 7)
    translator = Translator(base_bytes, element_bytes, tied)
    batch = 1
    for spec in program.inputs:
        tensor = tensors[spec.name]
        if spec.kind is InputKind.PARAMETER:
            translator.bind(spec.name, Root.PARAMETER, (spec.target, tensor), tensor)
        elif spec.kind is InputKind.USER:
            translator.bind(spec.name, Root.INPUT, (spec.name, tensor), tensor)
            batch = tensor.shape[0] if batch == 1 and tensor.shape else batch
        elif spec.name in program.mutated:
            translator.bind(spec.name, Root.STATE, f"state {spec.target}", tensor)
        else:
            translator.bind(spec.name, Root.CONSTANT, spec.target, tensor)
    translator.run(program.graph)
    if not translator.ops:
        raise SourceError(
            "The archive has no operator that works on an input or a parameter; export a model that computes something."
        )
    tied_to = translator.tied_to()
    ops = tuple(replace(op, tied_to=tied_to.get(v)) for v, op in enumerate(translator.ops))
    unread = [spec for spec in parameters if (spec.target, tensors[spec.name]) not in translator.users]
    return Translated(
        Network(name, max(1, batch), ops),
        tuple(translator.modules),
        tuple(sorted(translator.unknown)),
        tuple(sorted(translator.loops)),
        sum(tensors[spec.name].elements for spec in unread),
        translator.num_constants,
        _FORMATS.get(dtype, "another format"),
        tuple(translator.views),
    )


_FORMATS: Mapping[int, str] = {6: "float16", 7: "float32", 8: "float64", 13: "bfloat16", 29: "float8", 30: "float8"}


def _writes(call: Call) -> bool:
    """Whether an operator writes to its first input."""
    operator = call.operator.rpartition(".")[2]
    return operator.endswith("_") and not operator.endswith("__")
