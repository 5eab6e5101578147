"""An exported program as its JSON has it: operators in the order they run, with shapes and module paths.

The schema is that of `torch/_export/serde/schema.py`, versions 7 and 8 (PyTorch 2.5 to 2.14). What it says of weights
is their shape and name; what it says of an operator is its name, its arguments and the modules it was called in.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from solvers.importers.checked import checked, item, short
from solvers.importers.limits import MAX_ELEMENTS, MAX_OPERATORS, MAX_RANK, MAX_SUBGRAPH_DEPTH
from solvers.importers.torch_export.archive import REMEDY
from solvers.importers.torch_export.symbols import Sizes
from solvers.model.errors import SourceError
from solvers.quantities import count

KNOWN_SCHEMAS = (7, 8)
"""Major versions of the schema: PyTorch 2.5 writes 7, 2.6 to 2.14 write 8."""

_FLOATS = {6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 13: 2, 29: 1, 30: 1, 31: 1, 32: 1, 33: 1}
_INTEGERS = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 12: 1, 28: 2, 34: 4, 35: 8}
"""Bytes of an element by `ScalarType` of the schema, floating and complex ones apart from the others."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """What is known of a tensor; `is_contiguous` tells whether its elements lie in memory in their order."""

    dtype: int
    shape: tuple[int, ...]
    is_contiguous: bool = True

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)

    @property
    def is_floating(self) -> bool:
        """Whether a gradient can pass it."""
        return self.dtype in _FLOATS

    @property
    def element_bytes(self) -> int:
        """Bytes of one number as it was exported."""
        return _FLOATS.get(self.dtype) or _INTEGERS[self.dtype]


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor as an argument, by its name in the graph."""

    name: str


@dataclass(frozen=True)
class Call:
    """One operator: `target` is like "aten.linear.default", `module` the path of the innermost module, "" at the top.

    `arguments` are in order, by the names that the operator's schema has; values are numbers, texts, lists of these,
    `Ref` for a tensor, `Graph` for a subgraph, and None for nothing and for all that costs do not depend on.
    """

    name: str
    target: str
    module: str
    arguments: tuple[tuple[str, Any], ...]
    outputs: tuple[str, ...]

    def get(self, *names: str) -> Any:
        """Return the argument of one of these names, None where there is none."""
        return next((value for name, value in self.arguments if name in names), None)

    @property
    def operator(self) -> str:
        """The operator without its overload: "aten.linear"."""
        return self.target.rpartition(".")[0] if self.target.count(".") > 1 else self.target

    @cached_property
    def tensors(self) -> tuple[str, ...]:
        """Names of the tensors it reads."""
        return tuple(ref.name for _, value in self.arguments for ref in _refs(value))

    @cached_property
    def subgraphs(self) -> tuple["Graph", ...]:
        """Its subgraphs."""
        return tuple(value for _, value in self.arguments if isinstance(value, Graph))


@dataclass(frozen=True)
class Graph:
    """Operators in the order they run, with the tensors they read and write."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    tensors: Mapping[str, Tensor]


class InputKind(StrEnum):
    """What an input of a program is."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a program; `target` is the name of a parameter or buffer in the model."""

    name: str
    kind: InputKind
    target: str = ""


@dataclass(frozen=True)
class Program:
    """A whole program; `mutated` are the inputs it writes to, `symbols` its open sizes with the values taken."""

    graph: Graph
    inputs: tuple[Input, ...]
    mutated: frozenset[str]
    symbols: Mapping[str, int | None]
    torch_version: str


def parse_program(document: Mapping[str, Any], dims: Mapping[str, int]) -> Program:
    """Return the program of an archive's JSON object; SourceError, in one sentence, where it is none.

    `dims` gives sizes that the program leaves open, by the names it has for them.
    """
    version = item(item(dict(document), "schema_version", dict, "The archive"), "major", int, "schema_version")
    if version not in KNOWN_SCHEMAS:
        raise SourceError(
            f"The archive's schema has version {short(version)}; those of PyTorch 2.5 to 2.14 are read, which are "
            f"{KNOWN_SCHEMAS[0]} and {KNOWN_SCHEMAS[1]}: export the model with one of these."
        )
    module = item(dict(document), "graph_module", dict, "The archive")
    sizes = Sizes(dims, _ranges(dict(document)))
    graph = _Reader(sizes).graph(item(module, "graph", dict, "graph_module"), "graph", 0)
    signature = item(module, "signature", dict, "graph_module")
    inputs = tuple(_inputs(item(signature, "input_specs", list, "signature")))
    by_target = {spec.target: spec.name for spec in inputs if spec.target}
    mutated = frozenset(_mutated(item(signature, "output_specs", list, "signature"), by_target))
    sizes.check_all_used()
    for spec in inputs:
        if spec.name not in graph.tensors:
            raise SourceError(f"The archive's signature names {short(spec.name)}, which its graph has not; {REMEDY}.")
    torch_version = document.get("torch_version")
    return Program(graph, inputs, mutated, sizes.symbols, torch_version if isinstance(torch_version, str) else "")


def _ranges(document: dict[str, Any]) -> dict[str, tuple[int | None, int | None]]:
    ranges: dict[str, tuple[int | None, int | None]] = {}
    for name, raw in item(document, "range_constraints", dict, "The archive").items():
        bounds = [checked(raw, dict, f"range_constraints: '{name[:40]}'").get(end) for end in ("min_val", "max_val")]
        least, most = (end if isinstance(end, int) else None for end in bounds)
        ranges[name] = (least, most)
    return ranges


def _inputs(specs: list[Any]) -> Iterator[Input]:
    """Yield the tensors among a program's inputs."""
    for i, spec in enumerate(specs):
        place = f"input_specs[{i}]"
        ((kind, raw),) = checked(spec, dict, place).items() if isinstance(spec, dict) and len(spec) == 1 else ((0, 0),)
        if kind == "user_input":
            argument = item(item({kind: raw}, kind, dict, place), "arg", dict, place)
            if "as_tensor" in argument:
                yield Input(item(argument["as_tensor"], "name", str, place), InputKind.USER)
        elif kind in ("parameter", "buffer", "tensor_constant"):
            name = item(item(raw, "arg", dict, place), "name", str, place)
            target = item(raw, f"{kind}_name", str, place)
            yield Input(name, InputKind.PARAMETER if kind == "parameter" else InputKind.BUFFER, target)
        elif kind not in ("custom_obj", "token", "constant_input"):
            raise SourceError(f"{place} is of an unknown type, {short(kind)}; {REMEDY}.")


def _mutated(specs: list[Any], by_target: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the inputs that a program writes to."""
    for i, spec in enumerate(specs):
        for kind, raw in checked(spec, dict, f"output_specs[{i}]").items():
            if kind in ("buffer_mutation", "user_input_mutation"):
                target = item(raw, "buffer_name" if kind == "buffer_mutation" else "user_input_name", str, kind)
                yield by_target.get(target, target)


class _Reader:
    """Reads graphs within graphs, as many operators and as deep as `limits` allow."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes, self.num_calls = sizes, 0

    def graph(self, raw: dict[str, Any], place: str, depth: int) -> Graph:
        if depth > MAX_SUBGRAPH_DEPTH:
            raise SourceError(f"{place}: graphs lie more than {MAX_SUBGRAPH_DEPTH} deep in each other; {REMEDY}.")
        tensors = {
            name: self._tensor(meta, f"{place}: tensor {short(name)}")
            for name, meta in item(raw, "tensor_values", dict, place).items()
        }
        nodes = item(raw, "nodes", list, place)
        self.num_calls += len(nodes)
        if self.num_calls > MAX_OPERATORS:
            raise SourceError(
                f"The archive has more than {count(MAX_OPERATORS)} operators; export a part of the model."
            )
        calls = tuple(self._call(node, f"{place}.nodes[{i}]", depth) for i, node in enumerate(nodes))
        ends = [
            tuple(
                ref.name
                for i, value in enumerate(item(raw, end, list, place))
                for ref in _refs(self._value(value, f"{place}.{end}[{i}]", depth))
            )
            for end in ("inputs", "outputs")
        ]
        return Graph(ends[0], ends[1], calls, tensors)

    def _tensor(self, raw: Any, place: str) -> Tensor:
        dtype = item(raw, "dtype", int, place)
        if dtype not in _FLOATS and dtype not in _INTEGERS:
            raise SourceError(f"{place} has the unknown number format {short(dtype)}; {REMEDY}.")
        sizes, strides = item(raw, "sizes", list, place), item(raw, "strides", list, place)
        if len(sizes) > MAX_RANK:
            raise SourceError(f"{place} has {count(len(sizes))} dimensions; up to {MAX_RANK} are imported.")
        shape = tuple(self.sizes.size(size, place) for size in sizes)
        if math.prod(shape) > MAX_ELEMENTS:
            raise SourceError(
                f"{place} has more than {count(MAX_ELEMENTS)} elements, which no device holds; give it fewer."
            )
        return Tensor(dtype, shape, self._is_contiguous(shape, strides, place))

    def _is_contiguous(self, shape: tuple[int, ...], strides: list[Any], place: str) -> bool:
        expected = 1
        for size, stride in zip(reversed(shape), reversed(strides), strict=False):
            if size != 1:
                if self.sizes.size(stride, place) != expected:
                    return False
                expected *= size
        return True

    def _call(self, raw: Any, place: str, depth: int) -> Call:
        target = item(raw, "target", str, place)
        arguments = []
        for i, argument in enumerate(item(raw, "inputs", list, place)):
            where = f"{place}.inputs[{i}]"
            arguments.append(
                (item(argument, "name", str, where), self._value(item(argument, "arg", dict, where), where, depth))
            )
        outputs = tuple(
            ref.name
            for i, output in enumerate(item(raw, "outputs", list, place))
            for ref in _refs(self._value(output, f"{place}.outputs[{i}]", depth))
        )
        metadata = item(raw, "metadata", dict, place)
        name = raw.get("name")
        known = name if isinstance(name, str) and name else next(iter(outputs), "")
        return Call(
            known[:100], target.removeprefix("torch.ops.")[:100], module_path(metadata), tuple(arguments), outputs
        )

    def _value(self, raw: Any, place: str, depth: int) -> Any:
        """Return an argument: `Argument` of the schema, of which costs depend on the few kinds named here."""
        if not isinstance(raw, dict) or len(raw) != 1:
            raise SourceError(f"{place} is {short(raw)} and no argument with one kind; {REMEDY}.")
        ((kind, value),) = raw.items()
        if kind == "as_tensor":
            return Ref(item(value, "name", str, place))
        if kind in ("as_tensors", "as_optional_tensors", "as_nested_tensors"):
            return [self._listed(entry, place) for entry in checked(value, list, place)]
        if kind == "as_optional_tensor":
            return self._listed(value, place)
        if kind == "as_graph":
            return self.graph(item(value, "graph", dict, place), f"{place}.graph", depth + 1)
        if kind == "as_string_to_argument":
            return [self._value(entry, place, depth) for entry in checked(value, dict, place).values()]
        if kind in ("as_int", "as_bool", "as_string", "as_float", "as_ints", "as_bools"):
            return value
        return None

    def _listed(self, raw: Any, place: str) -> Any:
        """Return an entry of a list of tensors, which may be none, or a list itself."""
        if isinstance(raw, list):
            return [Ref(item(entry, "name", str, place)) for entry in raw]
        if isinstance(raw, dict) and "as_none" in raw:
            return None
        entry = raw.get("as_tensor", raw) if isinstance(raw, dict) else raw
        return Ref(item(entry, "name", str, place))


def _refs(value: Any) -> Iterator[Ref]:
    """Yield the tensors in an argument."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from _refs(entry)


_ROOT = re.compile(r"^(L\[['\"]\w+['\"]\]|L__self__)")
_NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
_INDEX = re.compile(r"\[['\"]?([^'\"\]]*)['\"]?\]")


def module_path(metadata: Mapping[str, Any]) -> str:
    """Return the path of the innermost module an operator was called in, as `named_modules` writes it.

    >>> module_path({"nn_module_stack": "L__self__,,__main__.M;L__self___h,L['self'].h[0].mlp,torch.nn.Linear"})
    'h.0.mlp'
    """
    stack = metadata.get("nn_module_stack")
    if not isinstance(stack, str) or not stack:
        return ""
    path = stack.rpartition(";")[2].partition(",")[2].rpartition(",")[0]  # key, path and type; paths may have commas
    if path == _NO_MODULE:
        return ""
    parts = _INDEX.sub(r".\1", _ROOT.sub("", path)).replace("._modules.", ".").split(".")
    parts = [part.partition("@")[0] for part in parts]  # of a module that is called again: "h.0@1"
    return ".".join(part for part in parts if part.isidentifier() or part.isdecimal())[:500]
