"""Run the operators of an exported program one by one and measure each: median and spread of repeated calls.

Every operator runs as PyTorch runs it eagerly, with its real inputs: the model's weights where it has them, else random
ones, and the arguments of the example. Its time includes the dispatch of the call, as eager execution does.
"""

import operator
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from solvers.importers.torch_export.measured import Spread, Timing
from solvers.importers.torch_export.translate import INLINE

WEIGHT_SCALE = 0.02
"""Standard deviation of random weights: small enough that no activation overflows."""


class Stopwatch:
    """Measures calls on a device: `repetitions` of each after a warm-up."""

    def __init__(self, device: torch.device, warm_up: int, repetitions: int) -> None:
        self.device, self.warm_up, self.repetitions = device, warm_up, repetitions

    def measure(self, call: Callable[[], Any]) -> Spread:
        """Return median and interquartile range of the calls, in ms."""
        for _ in range(self.warm_up):
            call()
        taken = []
        for _ in range(self.repetitions):
            self._wait()
            start = time.perf_counter_ns()
            call()
            self._wait()
            taken.append((time.perf_counter_ns() - start) / 1e6)
        low, median, high = statistics.quantiles(taken, n=4, method="inclusive")
        return Spread(median, high - low)

    def _wait(self) -> None:
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize(self.device)


class _Timed(torch.fx.Interpreter):  # type: ignore[misc]  # torch has no types where it is not installed
    """Runs a graph and measures each operator of it, those of subgraphs that always run once too."""

    def __init__(self, module: Any, watch: Stopwatch, timings: dict[str, list[Timing]], is_training: bool) -> None:
        super().__init__(module)
        self.watch, self.timings, self.is_training = watch, timings, is_training

    def run_node(self, n: Any) -> Any:
        if n.op != "call_function" or n.target is operator.getitem:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        graphs = [value for value in args if isinstance(value, torch.fx.GraphModule)]
        if graphs and str(n.target).rpartition(".")[2] in INLINE:
            own = [value for value in args[args.index(graphs[0]) + 1 :] if not isinstance(value, str)]
            return _Timed(graphs[0], self.watch, self.timings, self.is_training).run(*own, enable_io_processing=False)
        args, kwargs = _on(self.watch.device, (args, kwargs))
        forward = self.watch.measure(lambda: n.target(*args, **kwargs))
        backward = self._backward(n.target, args, kwargs) if self.is_training and not graphs else None
        self.timings.setdefault(n.name, []).append(Timing(forward, backward))
        return n.target(*args, **kwargs)

    def _backward(self, target: Any, args: Any, kwargs: Any) -> Spread | None:
        """Return the time of an operator's gradients; None where autograd has none."""
        sources: list[torch.Tensor] = []

        def with_gradient(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or not value.is_floating_point():
                return value
            sources.append(value.detach().clone().requires_grad_())
            return sources[-1]

        with torch.enable_grad():
            own_args, own_kwargs = torch.utils._pytree.tree_map(with_gradient, (args, kwargs))
            try:
                output = target(*own_args, **own_kwargs)
                results = [value for value in torch.utils._pytree.tree_leaves(output)
                           if isinstance(value, torch.Tensor) and value.requires_grad]  # fmt: skip
                seeds = [torch.ones_like(value) for value in results]

                def gradients() -> Any:
                    return torch.autograd.grad(results, sources, seeds, retain_graph=True, allow_unused=True)

                return self.watch.measure(gradients) if results else None
            except RuntimeError:  # written to in place, or no formula: said by torch in many ways
                return None


def measure_program(
    program: torch.export.ExportedProgram, device: torch.device, *, warm_up: int, repetitions: int, is_training: bool
) -> Mapping[str, list[Timing]]:
    """Return the times of a program's operators by their names in it, in the order they ran."""
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
    timings: dict[str, list[Timing]] = {}
    watch = Stopwatch(device, warm_up, repetitions)
    with torch.no_grad():
        interpreter = _Timed(program.graph_module, watch, timings, is_training)
        interpreter.run(*_on(device, given), enable_io_processing=False)
    return timings


def _on(device: torch.device, values: Any) -> Any:
    """Return values with every tensor on the device, and every device among them this one."""

    def moved(value: Any) -> Any:
        if isinstance(value, torch.device):
            return device
        if not isinstance(value, torch.Tensor):
            return value
        if value.device.type != "meta":
            return value.detach().to(device)
        if not value.is_floating_point():
            return torch.zeros(value.shape, dtype=value.dtype, device=device)
        return torch.randn(value.shape, device=device).mul_(WEIGHT_SCALE).to(value.dtype)

    return torch.utils._pytree.tree_map(moved, values)
