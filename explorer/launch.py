"""The command `placement-explorer`: serve the app, on this machine only unless told otherwise."""

import argparse
import math
import os
import secrets
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import platformdirs

from explorer.server.limits import EDGES_PER_NODE, MAX_UPLOAD_MB, Limits, set_limits
from explorer.server.private_folder import NotOursError, make_private
from solvers.quantities import as_given

PASSWORD_VARIABLE = "PLACEMENT_PASSWORD"  # noqa: S105 -- the name of a variable
LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
"""What stands for every address of this machine, with one that the machine can be reached at itself."""
RECONNECT_SECONDS = 60
"""For how long a page that was cut off finds its session again; after that it finds what a reload finds."""
SWITCH_SECONDS = 0.001
"""How long one thread keeps the interpreter while others wait; Python's own 5 ms add up in a class: a click passes from
thread to thread a dozen times until its page is there.
"""
EXAMPLES = """\
examples:
  placement-explorer                       on this machine only
  placement-explorer --host 0.0.0.0 --password
                                           for a class: prints a password, and an address to hand out
  placement-explorer --password-file FILE --allow-host classroom.example.org
                                           behind a reverse proxy that passes the Host header on

The command runs until it is interrupted. Exit codes: 0 after Ctrl-C, 1 where the port is taken, 2 for an option that
cannot be used.
"""


def main() -> None:
    """Serve the app until interrupted."""
    options = _parser().parse_args()
    set_limits(_limits(options))
    if options.catalogue is not None:
        _offer_devices(options.catalogue)
    if options.dask is not None:
        from explorer.jobs.cluster import VARIABLE

        os.environ[VARIABLE] = options.dask
    password, is_ours = _password(options)
    _check_address(options)
    _check_certificate(options)

    from explorer.server.hosts import served_hosts

    try:
        hosts = served_hosts(options.host, options.allow_host)
    except ValueError as error:
        _leave(f"--allow-host: {error}")
    is_loaded = _prepare_in_background()

    from explorer.server.app import Door, make_app  # isort: split

    from explorer.server.log import keep_in_order
    from explorer.server.password import Password
    from explorer.server.visitor import HEADER

    known = None if password is None else Password(password)
    shown = password if is_ours else None
    keep_in_order()
    sys.setswitchinterval(SWITCH_SECONDS)

    def say_and_open() -> None:
        _say_and_open(options, None if known is None else known.token, shown)

    make_app(Door(hosts, is_loaded, known, say_and_open)).run(
        config={
            "server.address": options.host,
            "server.port": options.port,
            "server.headless": True,  # the browser is opened here, and the terminal written to
            "logger.hideWelcomeMessage": True,  # which asks an address on the internet for ours
            "server.maxUploadSize": MAX_UPLOAD_MB,
            "server.fileWatcherType": "none",
            "server.disconnectedSessionTTL": RECONNECT_SECONDS,
            # A full collection after every run of the page took three fifths of a busy server; the janitor's will do.
            "runner.postScriptGC": False,
            # On, a request that follows a click by milliseconds drops the click; see explorer.server.mends.messages.
            "runner.fastReruns": False,
            "server.sslCertFile": options.certificate,
            "server.sslKeyFile": options.key,
            "browser.gatherUsageStats": False,
            "server.showEmailPrompt": False,  # a question on the terminal would hold up the first start
            "global.disableWidgetStateDuplicationWarning": True,  # the address sets widgets that have defaults
            "client.toolbarMode": "minimal",
            "client.showErrorDetails": "none",
            "client.showErrorLinks": False,  # to Google and ChatGPT, with a sentence that tells neither anything
            # Whatever a configuration of Streamlit's in this folder or home says.
            "global.developmentMode": False,
            "global.e2eTest": False,
            "server.baseUrlPath": "",
            "server.enableCORS": True,
            "server.corsAllowedOrigins": [],
            "server.enableXsrfProtection": True,
            "server.enableStaticServing": False,
            "server.enableAgentApi": False,
            "server.scriptHealthCheckEnabled": False,
            "server.trustedUserHeaders": {HEADER: "visitor"},
        }
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-explorer",
        description="Open the DNN Placement Explorer.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="localhost", help="address to serve on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8501, help="port to serve on (default: %(default)s)")
    parser.add_argument("--headless", action="store_true", help="do not open a browser")
    parser.add_argument(
        "--catalogue", metavar="FILE.json", help="devices to offer besides those of `placement devices`"
    )
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="Dask scheduler that sweeps may run on, tcp:// or tls://HOST:PORT; it and its workers are trusted "
        "(default: the variable PLACEMENT_DASK)",
    )
    group = parser.add_argument_group("for a class or a team")
    group.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="further name the app is opened by, such as classroom.example.org behind a reverse proxy; may be repeated",
    )
    given = group.add_mutually_exclusive_group()
    given.add_argument(
        "--password",
        action="store_true",
        help=f"ask for a password: that of the variable {PASSWORD_VARIABLE}, or a random one, which is printed",
    )
    given.add_argument("--password-file", metavar="FILE", help="ask for the password on the first line of a file")
    limiting = parser.add_argument_group("limits, so that all who share the machine get their turn")
    usual = Limits()
    limiting.add_argument(
        "--solvers",
        metavar="N",
        type=_within(1, 256, int),
        help="solves and points of sweeps that run at a time, besides as many live plans and as many long solves that "
        "have yielded (default: one per core, two at least)",
    )
    limiting.add_argument(
        "--longest-solve",
        metavar="SECONDS",
        type=_within(1, 86_400, float),
        default=usual.longest_solve_s,
        help="longest time limit of a solve (default: %(default)g)",
    )
    limiting.add_argument(
        "--solver-memory",
        metavar="GIB",
        type=_within(0.25, 65_536, float),
        help="memory of one solver in GiB; one that takes more is ended, its best plan is kept (default: its share of "
        "three quarters of the machine's memory, 1 GiB at least)",
    )
    limiting.add_argument(
        "--largest-graph",
        metavar="NODES",
        type=_within(1, 10_000_000, int),
        default=usual.max_nodes,
        help=f"nodes of the largest graph that is taken, with {EDGES_PER_NODE} edges each (default: %(default)d)",
    )
    keeping = parser.add_argument_group("uploads and plans, so that a restart of the server loses none")
    either = keeping.add_mutually_exclusive_group()
    either.add_argument(
        "--keep-in",
        metavar="FOLDER",
        type=Path,
        help="folder for what visitors would lose, for a day; only this user may enter it "
        "(default: one of this user's, by the port)",
    )
    either.add_argument("--keep-in-memory", action="store_true", help="write nothing of visitors to the disk")
    group.add_argument("--certificate", metavar="FILE", help="TLS certificate (PEM), to serve https")
    group.add_argument("--key", metavar="FILE", help="its private key (PEM)")
    return parser


def _within(least: float, most: float, kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return what reads an option's number, from `least` to `most`."""

    def read(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            what = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text!r} is no {what} from {as_given(least)} to {as_given(most)}")
        return number

    return read


def _limits(options: argparse.Namespace) -> Limits:
    memory_gib = options.solver_memory
    return Limits(
        solvers=options.solvers,
        longest_solve_s=options.longest_solve,
        solver_memory_bytes=None if memory_gib is None else memory_gib * 2**30,
        max_nodes=options.largest_graph,
        max_edges=EDGES_PER_NODE * options.largest_graph,
        keep_in=_folder_to_keep_in(options),
    )


def _folder_to_keep_in(options: argparse.Namespace) -> Path | None:
    """Return the folder of what visitors would lose; leave with a sentence where it cannot be used."""
    if options.keep_in_memory or not (options.keep_in or options.port):  # no page finds a port that was drawn again
        return None
    folder: Path = options.keep_in or platformdirs.user_state_path("placement-explorer") / f"port-{options.port}"
    try:
        make_private(folder)
    except (OSError, NotOursError) as error:
        _leave(f"--keep-in {folder} cannot be used: {error} Name another folder, or give --keep-in-memory.")
    return folder.resolve()


def _leave(why: str) -> NoReturn:
    print(f"placement-explorer: {why}", file=sys.stderr)
    sys.exit(2)


def _password(options: argparse.Namespace) -> tuple[str | None, bool]:
    """Return the password to ask for, None where everybody is let in, and whether it was made here."""
    from explorer.server.password import MIN_LENGTH

    in_environment = os.environ.pop(PASSWORD_VARIABLE, None)  # the solver processes have no use for it
    if options.password_file is not None:
        try:
            lines = Path(options.password_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            _leave(f"--password-file {options.password_file} cannot be read: {error}.")
        text, where = lines[0].strip() if lines else "", f"on the first line of {options.password_file}"
    elif in_environment is not None:
        text, where = in_environment.strip(), f"in {PASSWORD_VARIABLE}"
    elif options.password:
        return secrets.token_urlsafe(9), True
    else:
        return None, False
    if len(text) < MIN_LENGTH:
        _leave(f"the password {where} has {len(text)} characters; give one of {MIN_LENGTH} or more.")
    return text, False


def _check_address(options: argparse.Namespace) -> None:
    """Leave with a sentence where the address is none of this machine."""
    import socket

    if not options.host or "://" in options.host:
        _leave(f'--host "{options.host}" is no address; give one such as 0.0.0.0, or leave it out.')
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((options.host, 0))
    except OSError as error:
        _leave(f"--host {options.host} is no address of this machine ({error.strerror}).")
    if not 0 <= options.port < 2**16:
        _leave(f"--port {options.port} is out of range; give 1 to 65535.")


def _check_certificate(options: argparse.Namespace) -> None:
    """Leave with a sentence where certificate and key cannot be used."""
    import ssl

    if (options.certificate is None) != (options.key is None):
        _leave("--certificate and --key go together; give both files.")
    if options.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(options.certificate, options.key)
    except OSError as error:  # an SSLError is one
        _leave(f"--certificate {options.certificate} and --key {options.key} cannot be used: {error}.")


def _say_and_open(options: argparse.Namespace, token: str | None, password: str | None) -> None:
    """Print where the app is and who can reach it, and open a browser unless told not to."""
    from streamlit import cli_util, config, net_util

    scheme = "https" if options.certificate else "http"
    port = config.get_option("server.port")  # another one than was asked for, where that was 0

    def address(host: str) -> str:
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    here = address("localhost" if options.host in EVERY_ADDRESS else options.host)
    # The address of this machine in its network; its address on the internet is nothing to ask others for.
    network = net_util.get_internal_ip() if options.host in EVERY_ADDRESS else None
    there = address(network) if network else here
    print(f"DNN Placement Explorer: {here}" + (f" · from other machines: {there}" if network else ""))
    if options.host not in LOOPBACK:
        print(_who_can_reach_it(options, token is not None))
    if password is not None:
        print(f"Password: {password}")
    if token is not None:
        print(f"Address to hand out, which asks for no password: {there}/?token={token}")
    print(end="", flush=True)
    if not options.headless:
        cli_util.open_browser(here)  # without the token: other users of this machine can see what programs are given


def _who_can_reach_it(options: argparse.Namespace, has_password: bool) -> str:
    """Say in a line who can open the app at an address that is not of this machine alone, and what that means."""
    who = "Everybody who can reach this machine over the network"
    who += " and has the password" if has_password else ", without a password (--password asks for one),"
    secret = "encrypted" if options.certificate else "not encrypted (--certificate and --key)"
    return f"{who} can open it and have solvers run here; what is sent is {secret}."


def _offer_devices(path: str) -> None:
    """Have the app offer the devices of a file; leave with a sentence where it cannot be used."""
    from explorer.words.known_devices import VARIABLE
    from solvers.hardware.catalogue import read_catalogue
    from solvers.model.errors import PlacementError

    try:
        read_catalogue(path)
    except PlacementError as error:
        _leave(str(error))
    os.environ[VARIABLE] = str(Path(path).resolve())


def _prepare_in_background() -> threading.Event:
    """Start a solver process and load what pages import while the server starts; return what tells when it is there.

    By one thread, before there are others: Pandas, which Plotly asks for, fails when two import it at once.
    """
    is_loaded = threading.Event()

    def prepare() -> None:
        from explorer.jobs.server_pool import solver_pool

        try:
            solver_pool()
            for page in ("explore", "compare", "sweep", "lessons"):
                import_module(f"explorer.{page}.page")
            # Streamlit loads Pandas and Arrow when it first shows a table, and Plotly most of itself with the first
            # figure: the first sweep would wait for them.
            import_module("pyarrow").Table.from_pandas(import_module("pandas").DataFrame({"of": [1.0]}))
            figure = import_module("explorer.sweep.figures").empty_figure("light", height=100)
            figure.add_scatter(x=[0.0], y=[0.0]).to_json()
        finally:  # a page says what is wrong with an import
            is_loaded.set()

    threading.Thread(target=prepare, name="prepare", daemon=True).start()
    return is_loaded


if __name__ == "__main__":
    main()
