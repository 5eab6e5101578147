"""Which source files the machine code of a kernel was made of.

numba's cache on disk tells a changed kernel by the file that its function is in. What else is compiled into it, such as
a constant, a named tuple or a kernel of another file, may change unnoticed.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "solvers."


class KernelFile(NamedTuple):
    """A source file with kernels, the folder of numba's cache for it, and all files they are made of, itself too."""

    source: str
    cache: str
    needs: tuple[str, ...]


def kernels() -> Iterator[Any]:
    """Yield the functions of numba's in the modules that are loaded, each once."""
    seen: set[int] = set()
    for name, module in tuple(sys.modules.items()):
        if name.startswith(PACKAGE):
            for value in vars(module).values():
                if hasattr(value, "py_func") and hasattr(value, "stats") and id(value) not in seen:
                    seen.add(id(value))
                    yield value


def kernel_files() -> tuple[KernelFile, ...]:
    """Return the files with kernels among the modules that are loaded."""
    of_file: dict[str, list[Any]] = {}
    for kernel in kernels():
        of_file.setdefault(kernel.py_func.__code__.co_filename, []).append(kernel)
    near = {source: _files_named(source, found) | _files_of_classes(found) for source, found in of_file.items()}
    return tuple(
        KernelFile(source, of_file[source][0].stats.cache_path, _closure(source, near)) for source in sorted(near)
    )


def _files_of_classes(functions: Iterable[Any]) -> set[str]:
    """Return the files of the named tuples that functions have been compiled for: numba keeps these by their names."""
    types = {kind for function in functions for signature in function.signatures for kind in signature}
    modules = {kind.instance_class.__module__ for kind in types if hasattr(kind, "instance_class")}
    return {file for module in modules if (file := sys.modules[module].__file__) is not None}


def _files_named(source: str, functions: Iterable[Any]) -> set[str]:
    """Return the files of this package from which these functions of a file take what they name."""
    tree = ast.parse(Path(source).read_text(encoding="utf-8"))
    own = {function.py_func.__name__ for function in functions}
    names = _names(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in own)
    for node in reversed(tree.body):  # a constant may be made of others that stand before it
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if names & _names(targets):
                names |= _names([node.value])
    return {
        file
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE)
        if any((alias.asname or alias.name) in names for alias in node.names)
        if (file := sys.modules[node.module].__file__) is not None
    }


def _names(parts: Iterable[ast.AST]) -> set[str]:
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}


def _closure(source: str, near: dict[str, set[str]]) -> tuple[str, ...]:
    found, waiting = {source}, [source]
    while waiting:
        new = near.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return tuple(sorted(found))
