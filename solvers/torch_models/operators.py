"""Run an exported program and measure each operator of it: median and spread over repeated passes.

Every operator runs as PyTorch runs it eagerly, with its real inputs: the model's weights where it has them, else random
ones, and the arguments of the example. Its time includes the dispatch of the call, as eager execution does.

Operators are measured in place, in passes through the whole program: one that is called again and again by itself finds
its inputs in the caches and the memory of its output at hand, and not what the others left, as in a pass.

In training each operator has a small autograd graph of its own. A pass keeps them all, as it keeps activations, and
then runs through them backwards, each with the gradients that those behind it gave, so that only gradients that
somebody needs are computed. Gradients of weights are added to those of the micro-batches before, as in every pipeline
schedule, within the operator's time; so is the adding up of gradients that several readers send back. A call for a
gradient has a price in Python that a pass of autograd pays once for all operators: what a call takes that computes
nothing is measured in every pass, and subtracted.
"""

import functools
import operator
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from solvers.importers.measured import Call, Taken, Timing, timings_of
from solvers.importers.torch_export.translate import INLINE

NUM_EMPTY = 5
"""Calls for a gradient of nothing in a pass."""
WEIGHT_SCALE = 0.02
"""Standard deviation of random weights: small enough that no activation overflows."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """One call in a pass: tensors of the pass that it read and wrote and that want a gradient.

    `leaves` and `results` stand for them in the autograd graph of its own; a call without one has no `results`.
    """

    call: Call
    read: tuple[torch.Tensor, ...]
    leaves: tuple[torch.Tensor, ...]
    wrote: tuple[torch.Tensor, ...]
    results: tuple[torch.Tensor, ...]


class Program:
    """An exported program with its inputs on a device, to be passed through; `calls` has the times of its operators.

    In training each pass goes forwards and backwards; `empty` has what asking for the gradient of nothing takes.
    """

    def __init__(self, program: torch.export.ExportedProgram, device: torch.device, *, is_training: bool) -> None:
        self.module, self.device, self.is_training = program.graph_module, device, is_training
        self.calls: dict[str, list[Call]] = {}
        self.empty: list[Taken] = []
        self.inputs = [_on(device, value) for value in _inputs(program)]
        trained = {spec.target for spec in program.graph_signature.input_specs if spec.kind.name == "PARAMETER"}
        self.gradients = {
            id(value): torch.zeros_like(value)
            for spec, value in zip(program.graph_signature.input_specs, self.inputs, strict=True)
            if is_training and spec.target in trained and (value.is_floating_point() or value.is_complex())
        }

    def run(self) -> None:
        """Pass through the program once, and add to the times."""
        one = _Pass(self)
        with torch.no_grad():
            outputs = _Interpreter(self.module, one, tracks=self.is_training).run(
                *self.inputs, enable_io_processing=False
            )
        if self.is_training:
            one.backward([value for value in torch.utils._pytree.tree_leaves(outputs) if one.wants_gradient(value)])

    def timings(self) -> Mapping[str, list[Timing]]:
        """Return medians and interquartile ranges by the names of operators, in the order they ran."""
        is_alone = self.device.type == "cpu" and torch.get_num_threads() == 1
        return timings_of(self.calls, self.empty, is_alone=is_alone)


class _Pass:
    """One pass through a program, with the autograd graphs of its operators in the order they ran."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.done: Counter[str] = Counter()
        self.tape: list[_Segment] = []
        self.maker: dict[int, Call] = {}  # of tensors of the tape, which stay until it is run through
        self.added: dict[int, Taken] = {}  # for a call: adding up what its readers send back

    def wants_gradient(self, value: Any) -> bool:
        """Whether a tensor is a weight, or comes from one."""
        return isinstance(value, torch.Tensor) and (id(value) in self.maker or id(value) in self.program.gradients)

    def forward(self, name: str, target: Callable[..., Any], args: Any, kwargs: Any, *, tracks: bool) -> Any:
        """Return what an operator returns; where it tracks, the operator gets a graph for its gradients."""
        calls = self.program.calls.setdefault(name, [])
        if self.done[name] == len(calls):
            calls.append(Call())
        call = calls[self.done[name]]
        self.done[name] += 1
        leaves: dict[int, torch.Tensor] = {}
        read: list[torch.Tensor] = []
        written = id(args[0]) if args and _writes(target) else None

        def as_leaf(value: Any) -> Any:
            if not (tracks and self.wants_gradient(value)):
                return value
            if id(value) not in leaves:
                read.append(value)
                leaves[id(value)] = value.detach().requires_grad_()
            leaf = leaves[id(value)]
            return leaf.clone() if id(value) == written else leaf  # a leaf may not be written to

        with torch.set_grad_enabled(tracks):
            own_args, own_kwargs = torch.utils._pytree.tree_map(as_leaf, (args, kwargs))
            output, taken = self._timed(lambda: target(*own_args, **own_kwargs))
        call.forward.append(taken)
        results: list[torch.Tensor] = []
        wrote: list[torch.Tensor] = []

        def detached(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.requires_grad:
                return value
            results.append(value)
            wrote.append(value.detach())
            self.maker[id(wrote[-1])] = call
            return wrote[-1]

        output = torch.utils._pytree.tree_map(detached, output)
        if results:
            own = tuple(leaves[id(value)] for value in read)
            self.tape.append(_Segment(call, tuple(read), own, tuple(wrote), tuple(results)))
        return output

    def backward(self, outputs: Sequence[torch.Tensor]) -> None:
        """Run through the operators backwards, from these outputs."""
        self.program.empty += [self._empty() for _ in range(NUM_EMPTY)]
        gradients = {id(output): torch.ones_like(output) for output in outputs if id(output) in self.maker}
        while self.tape:
            segment = self.tape.pop()
            given = [gradients.pop(id(value), None) for value in segment.wrote]
            if all(gradient is None for gradient in given):
                continue
            try:
                own, taken = self._timed(functools.partial(self._gradients, segment, given))
                segment.call.backward.append(taken + self.added.pop(id(segment.call), Taken()))
            except RuntimeError:  # no formula, or written to in place: said by torch in many ways
                own = [torch.ones_like(value) for value in segment.read]
            for value, gradient in zip(segment.read, own, strict=True):
                if gradient is not None and id(value) in self.maker:
                    self._send_back(value, gradient, gradients)

    def _gradients(self, segment: _Segment, given: Sequence[torch.Tensor | None]) -> Sequence[torch.Tensor | None]:
        """Return the gradients of what a segment read; those of weights are added to what these have."""
        pairs = [(result, g) for result, g in zip(segment.results, given, strict=True) if g is not None]
        results, seeds = zip(*pairs, strict=True)
        own: Sequence[torch.Tensor | None] = torch.autograd.grad(results, segment.leaves, seeds, allow_unused=True)
        for value, gradient in zip(segment.read, own, strict=True):
            if gradient is not None and id(value) in self.program.gradients:
                self.program.gradients[id(value)].add_(gradient)
        return own

    def _empty(self) -> Taken:
        """Return what a call for a gradient takes that has nothing to compute."""
        leaf = torch.zeros(1, device=self.program.device, requires_grad=True)
        with torch.enable_grad():
            result = leaf.view_as(leaf)
        segment = _Segment(Call(), (leaf,), (leaf,), (result,), (result,))
        return self._timed(functools.partial(self._gradients, segment, [torch.ones_like(leaf)]))[1]

    def _send_back(self, value: torch.Tensor, gradient: torch.Tensor, gradients: dict[int, torch.Tensor]) -> None:
        """Add a reader's gradient to those of a tensor, in the time of who made it."""
        if id(value) not in gradients:
            gradients[id(value)] = gradient
            return
        before = gradients[id(value)]
        gradients[id(value)], taken = self._timed(lambda: before + gradient)
        maker = id(self.maker[id(value)])
        self.added[maker] = self.added.get(maker, Taken()) + taken

    def _timed(self, call: Callable[[], Any]) -> tuple[Any, Taken]:
        self._wait()
        processor, start = time.thread_time_ns(), time.perf_counter_ns()
        result = call()
        self._wait()
        end = time.perf_counter_ns()
        return result, Taken((end - start) / 1e6, (time.thread_time_ns() - processor) / 1e6)

    def _wait(self) -> None:
        device = self.program.device
        if device.type != "cpu":
            getattr(torch, device.type).synchronize(device)


class _Interpreter(torch.fx.Interpreter):  # type: ignore[misc]  # torch has no types where it is not installed
    """Has every operator of a graph run by a pass, those of subgraphs that always run once too."""

    def __init__(self, module: Any, one: _Pass, *, tracks: bool) -> None:
        super().__init__(module)
        self.one, self.tracks = one, tracks

    def run_node(self, n: Any) -> Any:
        if n.op != "call_function" or n.target is operator.getitem:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        graphs = [value for value in args if isinstance(value, torch.fx.GraphModule)]
        kind = str(n.target).rpartition(".")[2]
        if graphs and kind in INLINE:
            own = [value for value in args[args.index(graphs[0]) + 1 :] if not isinstance(value, str)]
            tracks = self.tracks and not (kind == "wrap_with_set_grad_enabled" and args[0] is False)
            return _Interpreter(graphs[0], self.one, tracks=tracks).run(*own, enable_io_processing=False)
        device = self.one.program.device
        args, kwargs = torch.utils._pytree.tree_map(
            lambda value: device if isinstance(value, torch.device) else value, (args, kwargs)
        )
        return self.one.forward(n.name, n.target, args, kwargs, tracks=self.tracks and not graphs)


def measure_program(
    program: torch.export.ExportedProgram, device: torch.device, *, warm_up: int, repetitions: int, is_training: bool
) -> Mapping[str, list[Timing]]:
    """Return the times of a program's operators by their names in it, in the order they ran."""
    placed = Program(program, device, is_training=is_training)
    for _ in range(warm_up):
        placed.run()
    placed.calls.clear()
    placed.empty.clear()
    for _ in range(repetitions):
        placed.run()
    return placed.timings()


def _writes(target: Any) -> bool:
    """Whether an operator writes to its first argument."""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.arguments:
        return False
    alias = schema.arguments[0].alias_info
    return alias is not None and alias.is_write


def _inputs(program: torch.export.ExportedProgram) -> list[Any]:
    """Return what a program's graph is given: weights and constants, and the arguments of the example."""
    args, kwargs = program.example_inputs
    values = iter(torch.utils._pytree.tree_leaves((args, kwargs)))
    given = []
    for spec in program.graph_signature.input_specs:
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER"):
            given.append(program.state_dict.get(spec.target, program.constants.get(spec.target)))
        elif kind == "CONSTANT_TENSOR" or kind == "CUSTOM_OBJ":
            given.append(program.constants[spec.target])
        else:
            given.append(next(values))
    return given


def _on(device: torch.device, value: Any) -> Any:
    """Return a tensor on the device, with random numbers where it has none; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.device.type != "meta":
        return value.detach().to(device)
    if not value.is_floating_point():
        return torch.zeros(value.shape, dtype=value.dtype, device=device)
    return torch.randn(value.shape, device=device).mul_(WEIGHT_SCALE).to(value.dtype)
