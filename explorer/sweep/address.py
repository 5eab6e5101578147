"""The address of the page Sweep, which holds all that is asked and looked at, and the addresses of its points.

    /sweep?sample=gpt2_xl_layer_inference&over=accelerators&values=1:12&and=memory&and_values=4:64:x2&show=per-cost

What is not about the sweep itself (graph, devices, objective, assumptions, splits, solver, limit) is said as in an
address of Explore, so that either page opens the other's. Where a sweep runs stays out: that is a matter of the
machine that serves the app (see `explorer.jobs.cluster`), not of the question.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from explorer.form.devices import equipped_by
from explorer.form.graph import DEFAULT_SAMPLE
from explorer.server.limits import longest_limit_s
from explorer.state.choice import question_of
from explorer.state.query import Link, from_query, to_query
from explorer.state.records import LoadedGraph, Subject
from explorer.state.shared import NOT_HERE
from solvers.hardware.device_list import devices_text, is_of_catalogue, parse_devices
from solvers.hardware.equipment import Equipped
from solvers.hardware.prices import CURRENCY, MAX_PRICE, PriceBasis, Prices
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.split import Family
from solvers.parameters.asked import DEVICES, asked, begin, parameter_named, wish_of
from solvers.parameters.hardware import (
    ACCELERATORS,
    BANDWIDTH,
    BANDWIDTH_FACTOR,
    CPUS,
    DEVICE_LIST,
    GIB,
    MEMORY,
)
from solvers.parameters.question import FAMILY, METHOD, OBJECTIVE, TIME_LIMIT
from solvers.parameters.schedule import NUM_CHUNKS, SCHEDULE, WEIGHT_GRADIENTS
from solvers.samples import read_sample, sample_info, sample_names
from solvers.sweep.axes import OF_A_CLASS, PARAMETERS, Change, DeviceSource, Quantity, Varied, listed_with
from solvers.sweep.measures import Measure
from solvers.sweep.spec import Index, SweepSpec

OF_HARDWARE = ("cpu", "memory", "link")
"""Prices beside those of accelerators, each `<name>_price` in the address."""
PARTS = (
    *("over", "values", "and", "and_values", "show", "prices", "pay", "currency", "at_least", "budget"),
    *(f"{name}_price" for name in OF_HARDWARE),
)
"""Parts of the address that only this page has."""
MAX_TEXT = 2000


def axis_name(varied: Varied) -> str:
    """Write what varies for an address.

    >>> axis_name(Varied(Quantity.MEMORY, "T4")), axis_name(Varied(Quantity.MEMORY))
    ('memory:T4', 'memory')
    """
    return varied.quantity + (f":{varied.of_class}" if varied.of_class else "")


def axis_named(text: str) -> Varied | None:
    """Read what varies; None for a text that names nothing.

    >>> axis_named("count:T4"), axis_named("speed")
    (Varied(quantity=<Quantity.COUNT: 'count'>, of_class='T4'), None)
    """
    name, _, of_class = text.partition(":")
    allowed = list(OF_A_CLASS) if of_class else [quantity for quantity in Quantity if quantity is not Quantity.COUNT]
    return next((Varied(quantity, of_class) for quantity in allowed if quantity == name), None)


def prices_query(prices: Prices) -> dict[str, str]:
    """Return what an address says of prices; nothing of those at their usual values."""
    query: dict[str, str] = {}
    if prices.of:
        query["prices"] = ",".join(f"{quote(name)}={price:.10g}" for name, price in prices.of)
    query |= {f"{name}_price": f"{value:.10g}" for name in OF_HARDWARE if (value := getattr(prices, name))}
    if prices.currency:
        query["currency"] = prices.currency
    if prices.basis is not PriceBasis.PER_HOUR:
        query["pay"] = prices.basis.value
    return query


def prices_from(query: Mapping[str, str]) -> tuple[Prices, tuple[str, ...]]:
    """Return the prices of an address, and a phrase for each part that cannot be used.

    >>> prices_from(prices_query(Prices(of=(("a,b=", 2.5),), basis=PriceBasis.TO_BUY)))[0].of
    (('a,b=', 2.5),)
    """
    of, problems = [], []
    for part in filter(None, query.get("prices", "")[:MAX_TEXT].split(",")):
        name, _, text = part.partition("=")
        price = number_from(text)
        if name and price is not None:
            of.append((unquote(name), price))
        else:
            problems.append(f"prices {part[:40]} (write NAME=PRICE)")
    known = {name: number_from(query.get(f"{name}_price", "0")) for name in OF_HARDWARE}
    problems += [
        f"{name}_price {query[f'{name}_price'][:40]} (give a number such as 0.5)"
        for name, value in known.items()
        if value is None
    ]
    currency = query.get("currency", "")
    if currency and not CURRENCY.fullmatch(currency):
        problems.append(f"currency {currency[:40]} (give up to five letters such as EUR, or a sign)")
        currency = ""
    basis = next((basis for basis in PriceBasis if basis == query.get("pay")), PriceBasis.PER_HOUR)
    if query.get("pay", basis) != basis:
        problems.append(f"pay {query['pay'][:40]} (give one of {', '.join(PriceBasis)})")
    cpu, memory, link = (known[name] or 0.0 for name in OF_HARDWARE)
    return Prices(None, cpu, tuple(of), basis, memory, link, currency), tuple(problems)


def number_from(text: str) -> float | None:
    """Read a price, a budget or a throughput; None for a text that is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= MAX_PRICE else None


def measure_from(query: Mapping[str, str]) -> Measure:
    """Return the measure an address asks to show."""
    return next((measure for measure in Measure if measure == query.get("show")), Measure.THROUGHPUT)


def link_of(query: Mapping[str, str]) -> tuple[Link, tuple[str, ...]]:
    """Return what an address says that Explore says too, and a phrase for each part that cannot be used."""
    return from_query({name: text for name, text in query.items() if name not in PARTS})


def asks_same_question(one: Link, other: Link) -> bool:
    """Whether two links ask the same of the same graph, however it is looked at and kept."""

    def bare(link: Link) -> Link:
        link = link.without(SCHEDULE.name, NUM_CHUNKS.name, WEIGHT_GRADIENTS.name)
        link = replace(link, level=None, colour=None, lanes=None, present=None, notes=None, by_device=None)
        return replace(link, edits=None, shared=None, keep=None)

    return to_query(bare(one)) == to_query(bare(other))


def subject_of_link(link: Link, uploaded: LoadedGraph | None = None) -> tuple[Subject, tuple[str, ...]]:
    """Return the question that an address of Explore asks, as Explore asks it, and sentences on what it did not get."""
    said: list[str] = []
    loaded = _loaded(link, uploaded, said)
    try:
        on = equipped_by(loaded, wish_of(link.values))
    except PlacementError as error:
        said.append(f"The devices of this address were not applied. {error}")
        on = Equipped(loaded.graph, loaded.deployment)
    asking = asked(link.values, begin(on.graph, on.deployment, loaded.deployment, longest_limit_s()))
    problems = [
        f"{parameter_named(name).address} {parameter_named(name).codec.write(link.values[name])} ({reason})"
        for name, reason in asking.in_vain.items()
    ]
    said += [f"Ignored from the link: {'; '.join(problems)}."] if problems else []
    question = question_of(asking.asked)
    return Subject(loaded, asking.asked.graph, question, replace(link, edits=None, keep=None)), tuple(said)


def _loaded(link: Link, uploaded: LoadedGraph | None, said: list[str]) -> LoadedGraph:
    if link.graph is not None:
        if uploaded is not None and uploaded.graph.digest.startswith(link.graph):
            return uploaded
        said.append(NOT_HERE)
    name = link.sample or DEFAULT_SAMPLE
    if name not in sample_names():
        said.append(f"There is no sample {name}; this is {sample_info(DEFAULT_SAMPLE).title}.")
        name = DEFAULT_SAMPLE
    return LoadedGraph(*read_sample(name), sample_info(name).title)


def link_to_point(spec: SweepSpec, subject: Subject, index: Index) -> Link:
    """Return the address of Explore with the question of a point: its hardware, splits, solver and limit.

    Raises PlacementError where Explore cannot ask it: it takes counts and devices of the catalogue only.
    """
    point = spec.asked(index)
    deployment = point.deployment
    memory = deployment.memory_bytes
    is_latency = point.objective is Objective.LATENCY
    values: dict[str, Any] = {
        **subject.link.values,
        ACCELERATORS.name: deployment.num_accelerators,
        CPUS.name: deployment.num_cpus,
        MEMORY.name: None if memory is None else memory / GIB,
        OBJECTIVE.name: point.objective,
        FAMILY.name: Family.CHAIN if is_latency else spec.family,
        METHOD.name: spec.method,
    }
    if spec.time_limit_s is not None:
        values[TIME_LIMIT.name] = spec.time_limit_s
    changes = spec.changes(index)
    for varied, value in changes:
        if varied.quantity is Quantity.DEVICES:
            values = {**values, DEVICE_LIST.name: str(value)}
            for brought in (BANDWIDTH, BANDWIDTH_FACTOR):  # a list brings links of its own
                values.pop(brought.name, None)
        elif not varied.of_class and (parameter := PARAMETERS.get(varied.quantity)) is not None:
            values[parameter.name] = value if isinstance(value, str) else varied.quantity.shown(value)
    link = replace(subject.link, values=values, edits=None, keep=None)
    return _without_usual(_with_list(link, deployment, changes, spec.source), subject.loaded)


def _without_usual(link: Link, loaded: LoadedGraph) -> Link:
    """Return a link without what Explore shows anyway, as Explore writes it: else Back would pass it twice."""
    own = equipped_by(loaded, wish_of(link.values))
    asking = asked(link.values, begin(own.graph, own.deployment, loaded.deployment, longest_limit_s()))
    devices = {parameter.name for parameter in DEVICES}
    kept = {name: value for name, value in link.values.items() if name in devices} | asking.values
    return replace(link, values=kept, sample=None if link.sample == DEFAULT_SAMPLE else link.sample)


def _with_list(link: Link, deployment: Deployment, changes: tuple[Change, ...], source: DeviceSource) -> Link:
    """Return a link whose list of devices has the counts of a deployment, and what else of a class is changed."""
    listed_before = link.values.get(DEVICE_LIST.name)
    if not listed_before:
        if deployment.classes:
            raise PlacementError("Explore shows the devices of the graph's own file and cannot change them.")
        return link
    kinds = parse_devices(listed_before)
    if not is_of_catalogue(kinds, source.catalogue):
        raise PlacementError("Explore takes devices of the catalogue, not such that are relative to the file's times.")
    if not deployment.classes:
        return link
    listed = []
    for kind, one in zip(kinds, deployment.classes, strict=True):
        changed = replace(kind, count=one.count)
        for varied, value in changes:
            if varied.of_class == one.name:
                changed = listed_with(changed, varied.quantity, float(value))
        listed.append(changed)
    return link.with_values(devices=devices_text(tuple(listed)))
