"""Parse an ONNX file into its parts: protobuf messages, nothing of which is run and no path of which is followed."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import onnx
import onnx.inliner
from google.protobuf.message import DecodeError

from solvers.importers.checked import short
from solvers.importers.limits import MAX_ONNX_OPERATORS
from solvers.importers.onnx.tensors import checked_text
from solvers.importers.onnx.wire import NOT_COMPLETE, without_weights
from solvers.importers.workload import ALL, Workload
from solvers.model.errors import SourceError
from solvers.quantities import count

BATCH_NAMES = frozenset({"batch", "batch_size", "batchsize", "n", "bs"})
"""Names of a dimension that --batch is the size of; letter case does not matter."""


def read_model(file: BinaryIO) -> onnx.ModelProto:
    """Return the model of a file without its large weights, its own functions written out; SourceError for none."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(without_weights(file))
    except DecodeError:  # damaged, or nested deeper than protobuf allows
        raise SourceError(NOT_COMPLETE) from None
    if not model.graph.node:
        raise SourceError("The ONNX file has no operators; give one of a whole model.")
    if model.functions:
        model = _with_functions_written_out(model)
    return model


def _with_functions_written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with calls of its functions replaced by what they do, unless that is too much."""
    functions = {(checked_text(f.domain), checked_text(f.name)): f for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    open_calls: set[tuple[str, str]] = set()

    def size(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in all_nodes(nodes):
            total += called(node.domain, node.op_type) if (node.domain, node.op_type) in functions else 1
        return total

    def called(domain: str, name: str) -> int:
        key = (domain, name)
        if key in open_calls or len(open_calls) > 50:
            raise SourceError(f"The function {short(name)} of the file calls itself, or 50 others in turn; mend it.")
        if key not in sizes:
            open_calls.add(key)
            sizes[key] = size(functions[key].node)
            open_calls.remove(key)
        return sizes[key]

    if size(model.graph.node) > MAX_ONNX_OPERATORS:
        raise SourceError(
            f"With its functions written out the file has more than {count(MAX_ONNX_OPERATORS)} operators."
        )
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(model)
    except Exception as error:  # RuntimeError, ValueError and exceptions of onnx's own
        raise SourceError(f"The functions of the file cannot be written out: {reason(error)}.") from None
    return inlined


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield operators with those of the graphs inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g.node)
            for graph in attribute.graphs:
                yield from all_nodes(graph.node)


def reason(error: Exception) -> str:
    """Return what a library says, as part of one sentence."""
    text = " ".join(str(error).split())
    text = "".join(c if c.isprintable() else " " for c in text)
    return (text[:160] + "..." if len(text) > 160 else text).rstrip(". ") or type(error).__name__


@dataclass
class Dimensions:
    """Sizes of the dimensions that a file leaves open: what is given, what was used, what is missing."""

    workload: Workload
    used: dict[str, int] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    is_batch_used: bool = False
    guessed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.given = dict(self.workload.dims)

    def size(self, name: str, *others: str) -> int | None:
        """Return the size of a dimension of these names; None, and a note that it is missing, where none is given."""
        for known in (name, *others):
            if known in self.given:
                self.used[known] = self.given[known]
                return self.given[known]
        if name.lower() in BATCH_NAMES:
            self.is_batch_used = True
            self.used[name] = self.workload.batch
            return self.workload.batch
        if ALL in self.given:
            self.used[ALL] = self.given[ALL]
            self.guessed[name] += 1
            return self.given[ALL]
        self.missing[name] = None
        return None

    def refuse_missing(self, why: str) -> None:
        """Raise SourceError that names the dimensions without a size, if any."""
        if self.missing:
            names = [name[:80] for name in self.missing]
            options = " ".join(f"--dim {shown(name)}=SIZE" for name in names[:8])
            more = f" and {count(len(names) - 8)} more" if len(names) > 8 else ""
            raise SourceError(f"{why}; give {options}{more}, or --dim '*=SIZE' for all that have none.")

    def refuse_unused(self) -> None:
        """Raise SourceError where a size was given to a dimension that the file does not leave open."""
        unused = [name for name in self.given if name not in self.used and name != ALL]
        if unused:
            known = ", ".join(shown(name) for name in list(self.used)[:8] if name != ALL) or "none"
            raise SourceError(
                f"The file has no open dimension {shown(unused[0])}; those with a size to give are: {known}."
            )
        if self.workload.batch != 1 and not self.is_batch_used:
            raise SourceError("--batch says nothing here: the file has no open dimension 'batch'; leave it out.")


def shown(name: str) -> str:
    """Return a name of the file as it may stand in a command, in quotes where it has to be."""
    text = "".join(c if c.isprintable() else " " for c in name[:80])
    return text if text and all(c.isalnum() or c in "._-/" for c in text) else "'" + text.replace("'", " ") + "'"
