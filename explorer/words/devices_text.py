"""What the app says of devices and of times on them, and how it reads what times are for."""

from collections.abc import Sequence

from explorer.words.known_devices import known_devices
from solvers.hardware.devices import Accelerator, Precision
from solvers.hardware.equipment import Equipped
from solvers.hardware.roofline import Basis, Retiming, described, origin_of, precision_named
from solvers.model.errors import PlacementError
from solvers.model.graph import TimesKind, TimesOrigin
from solvers.quantities import number, percent


def origin_of_times(times: TimesOrigin | None, equipped: Equipped) -> str:
    """Say in a line what of the times is measured and what is computed; `times` is what the file says of its own."""
    if equipped.retimings:
        return _of_retimings(equipped.retimings)
    if equipped.host is not None:
        return f"Times of CPUs: {_of_retimings((equipped.host,))}"
    if times is None or not times.accelerator:
        return "Times and transfers are those of the file, which does not say of which devices."
    return f"Times are those of the file: {times_text(times)}."


def times_text(times: TimesOrigin) -> str:
    """Say what times are for and how they were found.

    >>> times_text(TimesOrigin("T4", "fp16", kind=TimesKind.ROOFLINE)), times_text(TimesOrigin("A100-80"))
    ('computed by the roofline for T4 (fp16)', 'measured for A100-80')
    """
    how = {
        TimesKind.ROOFLINE: "computed by the roofline",
        TimesKind.SUMMED: "summed over operators computed by the roofline",
    }.get(times.kind, str(times.kind))
    of = f"{times.accelerator} ({times.precision})" if times.precision else times.accelerator
    return f"{how} for {of}"


def _of_retimings(retimings: Sequence[Retiming]) -> str:
    """Say in one sentence what was measured, by what it was scaled, and what was computed."""
    kinds = {retiming.kind for retiming in retimings}
    if kinds == {TimesKind.MEASURED}:
        return "Times are as the file has them."
    share = retimings[0].setup.efficiency
    computed = f"the roofline, {percent(share.compute)} of peak FLOP/s and {percent(share.memory)} of memory bandwidth"
    if kinds == {TimesKind.ROOFLINE}:
        return f"Times are computed, not measured: {computed}."
    scaled = []
    for retiming in retimings:
        if retiming.factor is not None:
            low, high = (number(factor, 3) for factor in retiming.factor)
            scaled.append(f"{retiming.setup.processor.name} × {low if low == high else f'{low} to {high}'}")
    origin = retimings[0].origin
    of = "" if origin is None else f" on {described(origin)}"
    has_computed = any(Basis.ROOFLINE in retiming.basis.values() for retiming in retimings)
    rest = f"; some are computed, by {computed}" if has_computed else ""
    return f"Times are those of the file{of}, scaled: {', '.join(scaled)}{rest}."


def links_text(equipped: Equipped) -> list[str]:
    """Say at which speeds devices that were picked transfer, each sentence once."""
    return list(dict.fromkeys(sentence for _, sentence in equipped.links))


def sources_text(accelerator: Accelerator, precision: Precision) -> str:
    """Name the sources of the figures that are used, and how they were read."""
    used = {"memoryGB", "memoryBandwidthGBs", str(precision)}
    sources = dict.fromkeys(figure.source for figure in accelerator.figures if figure.name in used)
    told = "; ".join(f"{source.title} ({_read(source.verified)})" for source in sources)
    return f"Published, dense: {told}. {accelerator.note}".strip()


def _read(verified: str) -> str:
    return {"yes": "read in the original", "second-hand": "as quoted by others"}.get(verified, "from memory")


def is_known(times: TimesOrigin | None) -> bool:
    """Whether a file says what its times are for, by names of the catalogue."""
    try:
        return origin_of(times, known_devices()) is not None
    except PlacementError:
        return False


def origin_told(text: str) -> TimesOrigin:
    """Read NAME or NAME@PRECISION; CatalogueError for what the catalogue does not have."""
    name, _, precision = text.partition("@")
    accelerator = known_devices().accelerator(name)
    known = precision_named(precision) if precision else accelerator.usual_precision
    accelerator.peak_flops_per_ms(known)
    return TimesOrigin(accelerator.name, str(known))
