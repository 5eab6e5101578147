"""The command `placement-explorer`: serve the app, on this machine only unless told otherwise."""

import argparse
import os
import sys
import threading
from pathlib import Path

MAX_UPLOAD_MB = 32
"""Largest upload; a graph of 20,000 nodes takes about 6 MB."""


def main() -> None:
    """Serve the app until interrupted."""
    parser = argparse.ArgumentParser(prog="placement-explorer", description="Open the DNN Placement Explorer.")
    parser.add_argument("--host", default="localhost", help="address to serve on (default: this machine only)")
    parser.add_argument("--port", type=int, default=8501, help="port to serve on (default: %(default)s)")
    parser.add_argument("--headless", action="store_true", help="do not open a browser")
    parser.add_argument(
        "--catalogue", metavar="FILE.json", help="devices to offer besides those of `placement devices`"
    )
    options = parser.parse_args()
    if options.catalogue is not None:
        _offer_devices(options.catalogue)
    _prepare_in_background()

    from streamlit.web import cli  # isort: split
    from streamlit.runtime.pages_manager import PagesManager

    # Until the app has run once Streamlit would take the modules in pages/ for pages by themselves, and an address such
    # as /compare would open an empty one.
    PagesManager.uses_pages_directory = False
    sys.argv = [
        "streamlit",
        "run",
        str(Path(__file__).with_name("app.py")),
        f"--server.address={options.host}",
        f"--server.port={options.port}",
        f"--server.headless={'true' if options.headless else 'false'}",
        f"--server.maxUploadSize={MAX_UPLOAD_MB}",
        "--server.fileWatcherType=none",
        "--browser.gatherUsageStats=false",
        "--server.showEmailPrompt=false",  # a question on the terminal would hold up the first start
        "--global.disableWidgetStateDuplicationWarning=true",  # the address sets widgets that have defaults
        "--client.toolbarMode=minimal",
        "--client.showErrorDetails=none",
    ]
    sys.exit(cli.main())


def _offer_devices(path: str) -> None:
    """Have the app offer the devices of a file; leave with a sentence where it cannot be used."""
    from explorer.known_devices import VARIABLE
    from solvers.catalogue import read_catalogue
    from solvers.errors import PlacementError

    try:
        read_catalogue(path)
    except PlacementError as error:
        print(f"placement-explorer: {error}", file=sys.stderr)
        sys.exit(2)
    os.environ[VARIABLE] = str(Path(path).resolve())


def _prepare_in_background() -> None:
    """Start a solver process and load what the page imports while the server starts, for a quick first page."""

    def prepare() -> None:
        from explorer.solver_pool import solver_pool

        solver_pool()
        import explorer.pages.explore  # noqa: F401 -- imported for its side effect: it is then loaded

    threading.Thread(target=prepare, name="prepare", daemon=True).start()


if __name__ == "__main__":
    main()
