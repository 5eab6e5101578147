"""The command `placement-explorer`: serve the app, on this machine only unless told otherwise."""

import argparse
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
    options = parser.parse_args()
    _prepare_in_background()

    from streamlit.web import cli

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


def _prepare_in_background() -> None:
    """Start a solver process and load what the page imports while the server starts, for a quick first page."""

    def prepare() -> None:
        from explorer.solver_pool import solver_pool

        solver_pool()
        import explorer.pages.explore  # noqa: F401 -- imported for its side effect: it is then loaded

    threading.Thread(target=prepare, name="prepare", daemon=True).start()


if __name__ == "__main__":
    main()
