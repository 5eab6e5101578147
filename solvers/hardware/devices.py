"""Accelerators, host CPUs and links as records: what a roofline needs of them, and where each figure is from.

Units are those of the library: bytes, and bytes and flops per millisecond. `solvers.hardware.catalogue` reads them from
files.
"""

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from solvers.model.errors import PlacementError
from solvers.quantities import listed

GB = 1e9
"""Bytes in one GB of a data sheet."""
GB_PER_S = 1e6
"""Bytes per ms in one GB/s."""
TFLOP_PER_S = 1e9
"""Flops per ms in one TFLOP/s."""


class CatalogueError(PlacementError):
    """A file of devices that cannot be used, or a device that is in no catalogue."""


class Precision(StrEnum):
    """The arithmetic of matrix products, the widest first. It decides the peak, not the bytes of a graph."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"

    @property
    def num_bytes(self) -> int:
        """Bytes of one number in memory; tf32 is a way of multiplying fp32."""
        return {Precision.FP32: 4, Precision.TF32: 4, Precision.FP8: 1, Precision.INT8: 1}.get(self, 2)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure is from: a title, an address, and how it was read (`solvers.hardware.catalogue`)."""

    title: str
    url: str = ""
    verified: str = ""
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of an entry: its name in the file, its value in the file's unit, and its source."""

    name: str
    value: float
    source: Source


@dataclass(frozen=True, slots=True)
class Processor:
    """What a roofline needs of a device: bytes per ms to its memory, and flops per ms by precision.

    `memory_bytes` is its memory. `figures` are all its figures as published, with their sources.
    """

    name: str
    title: str
    year: int
    memory_bytes: float
    bandwidth_bytes_per_ms: float
    peaks: tuple[tuple[Precision, float], ...]
    note: str
    figures: tuple[Figure, ...]

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """The precisions with a published peak, the widest first."""
        return tuple(precision for precision, _ in self.peaks)

    def peak_flops_per_ms(self, precision: Precision) -> float:
        """Return the dense peak in flops per ms; CatalogueError where none is published."""
        for known, peak in self.peaks:
            if known is precision:
                return peak
        names = ", ".join(self.precisions)
        raise CatalogueError(f"{self.name} has no published peak in {precision}; it has one in {names}.")

    @property
    def usual_precision(self) -> Precision:
        """The precision that networks are run in on it: bf16, or else fp16, or else the widest it has."""
        for precision in (Precision.BF16, Precision.FP16):
            if precision in self.precisions:
                return precision
        return self.precisions[0]

    def ridge_flops_per_byte(self, precision: Precision) -> float:
        """Return the intensity from which on arithmetic is the limit and no longer memory, both at their peaks."""
        return self.peak_flops_per_ms(precision) / self.bandwidth_bytes_per_ms


@dataclass(frozen=True, slots=True)
class Accelerator(Processor):
    """An accelerator; `links` names the links it is built with, the fastest first."""

    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostCpu(Processor):
    """One socket of a host. Its memory is information only: CPUs have no memory limit in the model."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link in one direction; `usable_bytes_per_ms` is None where nothing is known beyond the raw speed.

    `to_one` names the link to one neighbour where the speed is that to all of them together, as in a mesh or a torus.
    """

    name: str
    title: str
    year: int
    raw_bytes_per_ms: float
    usable_bytes_per_ms: float | None
    note: str
    figures: tuple[Figure, ...]
    to_one: str = ""

    @property
    def bandwidth_bytes_per_ms(self) -> float:
        """What transfers get: the usable bandwidth where it is known, else the raw one."""
        return self.raw_bytes_per_ms if self.usable_bytes_per_ms is None else self.usable_bytes_per_ms


Entry = TypeVar("Entry", bound="Accelerator | HostCpu | Link")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All devices by name, in the order of a menu; names differ by more than capitals."""

    accelerators: tuple[Accelerator, ...]
    hosts: tuple[HostCpu, ...]
    links: tuple[Link, ...]

    def accelerator(self, name: str) -> Accelerator:
        """Return the accelerator of this name, whatever its capitals; CatalogueError where there is none.

        >>> from solvers.hardware.catalogue import catalogue
        >>> catalogue().accelerator("t4").memory_bytes
        16000000000.0
        """
        return _named(self.accelerators, name, "accelerator")

    def host(self, name: str) -> HostCpu:
        """The same for a host CPU."""
        return _named(self.hosts, name, "host CPU")

    def link(self, name: str) -> Link:
        """The same for a link."""
        return _named(self.links, name, "link")

    def entry(self, name: str) -> Accelerator | HostCpu | Link:
        """Return whatever has this name."""
        entries: tuple[Accelerator | HostCpu | Link, ...] = (*self.accelerators, *self.hosts, *self.links)
        return _named(entries, name, "device")


def _named(entries: tuple[Entry, ...], name: str, what: str) -> Entry:
    for entry in entries:
        if entry.name.lower() == name.lower():
            return entry
    near = names_near(name, [entry.name for entry in entries])
    raise CatalogueError(f"There is no {what} {short_name(name)} in the catalogue; {near}.")


def names_near(name: str, known: Sequence[str]) -> str:
    """Say which known names are near one that is none: those that hold it or are spelled much like it, or else all.

    >>> names_near("h100", ["T4", "H100-SXM", "H100-PCIe"]), names_near("T5", ["T4", "L4"])
    ('the nearest names are H100-SXM and H100-PCIe', 'it has T4, L4')
    """
    spelled = {other.lower(): other for other in known}
    near = [own for other, own in spelled.items() if name.lower() in other]
    near = near or [spelled[other] for other in difflib.get_close_matches(name.lower(), spelled)]
    if not near:
        return f"it has {', '.join(known)}"
    return f"the nearest name is {near[0]}" if len(near) == 1 else f"the nearest names are {listed(near)}"


def short_name(name: str) -> str:
    """Quote a name from outside, cut so that a message stays one sentence."""
    return json.dumps(name if len(name) <= 40 else name[:37] + "...")
