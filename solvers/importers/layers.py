"""Gather operators into layers by the modules they belong to.

Operators are listed in an order in which they can run. A layer is a run of neighbours in that list whose modules have
the same path, cut somewhere: so data passes layers one way, however often modules are entered again, and what is folded
by layers (`solvers.importers.folding`) is acyclic.

Proof. Let the runs be numbered in the order of the list. Every edge of the graph of operators goes from a run to the
same or a later one, and every edge between twins of a backward pass from a run to the same or an earlier one. ∎

A run that is entered again has a number behind its name. Operators of a module that has layers within it (a sum between
two blocks) belong to the run before them.
"""

from collections.abc import Sequence


def blocks(modules: Sequence[str]) -> tuple[str, ...]:
    """Return the layer of each operator: its module's path up to the first number, or its first two names.

    >>> blocks(["embed", "h.0.mlp.up", "h.0.mlp.down", "h", "h.1.mlp.up", "norm"])
    ('embed', 'h.0', 'h.0', 'h.0', 'h.1', 'norm')
    """
    paths = list(map(_block, modules))
    outer = _outer(paths)
    for i, module in enumerate(modules):  # a module beside numbered ones has a layer of its own
        while paths[i] in outer and paths[i] != module:
            paths[i] = ".".join(module.split(".")[: paths[i].count(".") + 2])
    return _runs(paths)


def depths(modules: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the layers of all operators by paths of every length, the longest first.

    >>> depths(["h.0.up", "h.0.down", "h.1.up"])
    (('h.0.up', 'h.0.down', 'h.1.up'), ('h.0', 'h.0', 'h.1'), ('h', 'h', 'h'))
    """
    deepest = max((path.count(".") + 1 for path in modules), default=1)
    cuts = [[".".join(path.split(".")[:depth]) for path in modules] for depth in range(deepest, 0, -1)]
    return tuple(dict.fromkeys(map(_runs, cuts)))


def _block(module: str) -> str:
    parts = module.split(".")
    number = next((i for i, part in enumerate(parts) if part.isdecimal()), 1)
    return ".".join(parts[: number + 1])


def _outer(paths: Sequence[str]) -> set[str]:
    """Return the paths of modules that have others of these within, the root among them."""
    return {path[:i] for path in set(paths) for i, letter in enumerate(path) if letter == "."} | {""}


def _runs(paths: Sequence[str]) -> tuple[str, ...]:
    outer = _outer(paths)
    known = [path for path in paths if path not in outer]
    before = known[0] if known else "model"
    names: list[str] = []
    times: dict[str, int] = {}
    for path in paths:
        label = before if path in outer else path
        if not names or label != before:
            times[label] = times.get(label, 0) + 1
        before = label
        names.append(label if times[label] == 1 else f"{label} ({times[label]})")
    return tuple(names)
