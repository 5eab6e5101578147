"""Real devices on the command line: the options that put a graph on them, and the command that lists them."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from solvers.cli.commands import add_command, as_help
from solvers.cli.output import print_json, print_text
from solvers.formats.text_table import text_table
from solvers.hardware.catalogue import catalogue, read_catalogue
from solvers.hardware.device_list import Listed, device_classes, is_of_catalogue, parse_devices, with_relative
from solvers.hardware.device_list import groups as groups_of
from solvers.hardware.devices import GB, GB_PER_S, TFLOP_PER_S, Catalogue, Figure, Link, Precision, Processor
from solvers.hardware.equipment import Equipment, Equipped, Group, equip
from solvers.hardware.roofline import USUAL, Efficiency, precision_named
from solvers.model.deployment import Deployment
from solvers.model.errors import DeploymentError
from solvers.model.graph import DnnGraph, TimesOrigin
from solvers.parameters.hardware import DEVICE_LIST, EFFICIENCY, HOST, MEASURED_ON, MEMORY_EFFICIENCY, ROOFLINE
from solvers.parameters.parameter import Parameter
from solvers.quantities import UNKNOWN, as_given, number

CATALOGUE_HELP = "Devices to add to the catalogue, or other specifications of those in it"
NEED_A_DEVICE = ("link", "precision", "efficiency", "memory_efficiency", "roofline", "measured_on")
"""Options that say nothing without a device."""


def add_hardware_options(
    group: Any, reader: Callable[[Parameter[Any]], Callable[[str], Any]], devices_action: str = "store"
) -> None:
    """Add the options that `with_hardware` reads to a group; `reader` gives what reads a parameter's values.

    With the action "append" there may be several lists of devices, of which `with_hardware` reads none or one.
    """
    group.add_argument(
        "--device",
        metavar="NAME",
        help="Accelerators of the catalogue, such as H100-SXM: times by the roofline or scaled, and memory; "
        "`placement devices` lists them",
    )
    group.add_argument("--devices", action=devices_action, metavar=DEVICE_LIST.metavar, help=as_help(DEVICE_LIST.help))
    group.add_argument("--link", metavar="NAME", help="Link of the catalogue for --device, such as nvlink4")
    group.add_argument("--host", metavar=HOST.metavar, help=as_help(HOST.help))
    group.add_argument(
        "--precision",
        metavar="P",
        help=f"Precision for --device: {', '.join(Precision)} (default: that of the file's times, or bf16, or fp16)",
    )
    for share, usual in ((EFFICIENCY, USUAL.compute), (MEMORY_EFFICIENCY, USUAL.memory)):
        told = as_help(share.help, str(usual))
        group.add_argument(str(share.flag), type=reader(share), metavar=share.metavar, help=told)
    group.add_argument("--measured-on", metavar=MEASURED_ON.metavar, help=as_help(MEASURED_ON.help))
    group.add_argument("--roofline", action="store_true", help=as_help(ROOFLINE.help))
    group.add_argument("--catalogue", type=Path, metavar="FILE.json", help=CATALOGUE_HELP)


def with_hardware(
    options: argparse.Namespace, graph: DnnGraph, deployment: Deployment
) -> tuple[DnnGraph, Deployment, tuple[str, ...]]:
    """Return graph and deployment on the devices that are asked for, and what is to be said of their figures."""
    devices = catalogue() if options.catalogue is None else read_catalogue(options.catalogue)
    listed = () if options.devices is None else parse_devices(options.devices)
    check_combination(options, listed)
    check_host(options, listed, devices)
    if listed and not is_of_catalogue(listed, devices):
        _check_needs_a_device(options, "a device of the catalogue")
        relative = with_relative(graph, deployment, device_classes(listed))
        return relative.graph, relative.deployment, sentences_of(relative, options)
    if options.device is None and options.host is None and not listed:
        _check_needs_a_device(options, "--device, --devices or --host")
        return graph, deployment, ()
    if options.precision is not None and options.device is None and not listed:
        raise DeploymentError("--precision says nothing without --device or --devices; give both, or neither.")
    asked = equipment_of(options, devices)
    groups: tuple[Group, ...] = ()
    precision = None if options.precision is None else precision_named(options.precision)
    if options.device is not None:
        link = None if options.link is None else devices.link(options.link)
        groups = (Group(devices.accelerator(options.device), link=link, precision=precision),)
    elif listed:
        groups = groups_of(listed, devices, asked.times or graph.times)
        groups = tuple(g if g.precision is not None else replace(g, precision=precision) for g in groups)
    equipped = equip(graph, deployment, replace(asked, groups=groups), devices)
    return equipped.graph, equipped.deployment, sentences_of(equipped, options)


def sentences_of(equipped: Equipped, options: argparse.Namespace) -> tuple[str, ...]:
    """Return what is to be said of devices; of their links only where no other option sets their speed."""
    set_by_name = {name.lower() for name, _ in getattr(options, "bandwidth_of", ())}  # of a sweep
    links = tuple((name, sentence) for name, sentence in equipped.links if name.lower() not in set_by_name)
    is_set, is_multiple = options.bandwidth is not None, options.bandwidth is not None and options.bandwidth[1]
    sentences = replace(equipped, links=() if is_set and not is_multiple else links).sentences
    return (*sentences, "--bandwidth multiplies the speeds of these links.") if links and is_multiple else sentences


def equipment_of(options: argparse.Namespace, devices: Catalogue) -> Equipment:
    """Return what the options say of all devices, of which there are none yet."""
    return Equipment(
        (),
        None if options.host is None else devices.host(options.host),
        Efficiency(
            USUAL.compute if options.efficiency is None else options.efficiency,
            USUAL.memory if options.memory_efficiency is None else options.memory_efficiency,
        ),
        None if options.measured_on is None else _origin(options.measured_on, devices),
        options.roofline,
    )


def check_combination(options: argparse.Namespace, listed: tuple[Listed, ...]) -> None:
    """Refuse options that say the same thing twice, or something of nothing."""
    if options.link is not None:
        if options.device is None:
            raise DeploymentError("--link says nothing without --device; give both, or a link for each of --devices.")
        if options.bandwidth is not None:
            raise DeploymentError("--link and --bandwidth both set the speed of the links; give one of them.")
    if listed:
        if (
            options.bandwidth is not None
            and not options.bandwidth[1]
            and any("link" in dict(k.settings) for k in listed)
        ):
            raise DeploymentError(
                "--devices has links and --bandwidth their speed; give one, or a multiple such as 2x."
            )
        counted = listed[0].count is not None
        for option in ("device", *(("accelerators", "memory") if counted else ())):
            if getattr(options, option) is not None:
                raise DeploymentError(
                    f"--devices has the types, counts and memory of all accelerators; leave --{option} out."
                )


def check_host(options: argparse.Namespace, listed: tuple[Listed, ...], devices: Catalogue) -> None:
    """Refuse a host beside a list of devices relative to the times of the graph, which has CPU times of its own."""
    if options.host is not None and listed and not is_of_catalogue(listed, devices):
        raise DeploymentError(
            "--devices relative to the times of the file leave those of CPUs as they are; leave --host out, or give "
            "devices of the catalogue."
        )


def _check_needs_a_device(options: argparse.Namespace, device: str) -> None:
    given = [name for name in NEED_A_DEVICE if getattr(options, name) not in (None, False)]
    if given:
        option = "--" + given[0].replace("_", "-")
        raise DeploymentError(f"{option} says nothing without {device}; give both, or neither.")


def _origin(text: str, devices: Catalogue) -> TimesOrigin:
    """Read NAME or NAME@PRECISION."""
    name, _, precision = text.partition("@")
    accelerator = devices.accelerator(name)
    if not precision:
        return TimesOrigin(accelerator.name)
    known = precision_named(precision)
    accelerator.peak_flops_per_ms(known)
    return TimesOrigin(accelerator.name, str(known))


def add_devices(commands: Any) -> None:
    """Add the command `devices` to the commands of the parser."""
    parser = add_command(commands, "devices", "list accelerators, host CPUs and interconnects", "devices H100-SXM")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="Name of one of them, to print with the source of each figure"
    )
    parser.add_argument("--catalogue", type=Path, metavar="FILE.json", help=CATALOGUE_HELP)
    parser.add_argument("--json", action="store_true", help="Print JSON instead of tables")
    parser.set_defaults(run=_devices)


def _devices(options: argparse.Namespace) -> int:
    devices = catalogue() if options.catalogue is None else read_catalogue(options.catalogue)
    if options.name is not None:
        entry = devices.entry(options.name)
        if options.json:
            print_json(_document(entry))
        else:
            print_text(_entry_text(entry))
    elif options.json:
        kinds = (("accelerators", devices.accelerators), ("hosts", devices.hosts), ("links", devices.links))
        print_json({kind: [_document(entry) for entry in entries] for kind, entries in kinds})
    else:
        print_text(_tables(devices))
    return 0


def _document(entry: Processor | Link) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "year": entry.year or None,
        "figures": [_figure_document(figure) for figure in entry.figures],
        "note": entry.note,
    }


def _figure_document(figure: Figure) -> dict[str, Any]:
    source = figure.source
    return {
        "figure": figure.name,
        "value": figure.value,
        "unit": _unit(figure.name),
        "source": source.title,
        "url": source.url,
        "verified": source.verified,
    }


def _unit(figure: str) -> str:
    if figure == "memoryGB":
        return "GB"
    if figure in tuple(Precision):
        return "TOP/s" if figure == Precision.INT8 else "TFLOP/s"
    return "GB/s"


def _entry_text(entry: Processor | Link) -> str:
    rows = [
        (figure.name, f"{as_given(figure.value)} {_unit(figure.name)}", figure.source.title, figure.source.verified)
        for figure in entry.figures
    ]
    urls = list(dict.fromkeys(figure.source.url for figure in entry.figures if figure.source.url))
    lines = [f"{entry.name}: {entry.title}{f', {entry.year}' if entry.year else ''}"]
    lines.append(text_table(("figure", "value", "source", "read"), rows, left=4))
    return "\n".join([*lines, *([entry.note] if entry.note else []), *urls]) + "\n"


def _tables(devices: Catalogue) -> str:
    """Write the catalogue as three tables."""
    to_one = {link.to_one for link in devices.links}  # their names follow from those of the whole
    peaks = [
        (*_start(d), *(_peak(d, p) for p in Precision), _ridge(d), " ".join(n for n in d.links if n not in to_one))
        for d in devices.accelerators
    ]
    hosts = [(*_start(host), *(_peak(host, p) for p in (Precision.FP32,)), host.title) for host in devices.hosts]
    links = [
        (
            link.name,
            number(link.raw_bytes_per_ms / GB_PER_S),
            number(None if link.usable_bytes_per_ms is None else link.usable_bytes_per_ms / GB_PER_S),
            link.title,
        )
        for link in devices.links
    ]
    header = ("accelerator", "GB", "GB/s", *Precision, "flops/byte", "links")
    return (
        f"{_table(header, peaks)}\n\n"
        f"{_table(('host CPU', 'GB', 'GB/s', Precision.FP32, ''), hosts)}\n\n"
        f"{_table(('link', 'GB/s raw', 'usable', ''), links)}\n\n"
        "Peaks are dense, in 10^12 operations a second; flops/byte is the ridge of the roofline in the usual\n"
        "precision; links are per direction. `placement devices NAME` tells the source of each figure.\n"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align all but the first and the last column to the right."""
    lines = [header, *rows]
    width = max(len(line[-1]) for line in lines)
    head, *body = [(*line[:-1], line[-1].ljust(width)) for line in lines]
    return "\n".join(line.rstrip() for line in text_table(head, body).split("\n"))


def _start(device: Processor) -> tuple[str, str, str]:
    return device.name, number(device.memory_bytes / GB), number(device.bandwidth_bytes_per_ms / GB_PER_S)


def _peak(device: Processor, precision: Precision) -> str:
    if precision not in device.precisions:
        return UNKNOWN
    return number(device.peak_flops_per_ms(precision) / TFLOP_PER_S)


def _ridge(device: Processor) -> str:
    return number(device.ridge_flops_per_byte(device.usual_precision), 3)
