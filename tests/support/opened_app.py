"""The whole app as AppTest runs it: opened on a sample or at an address, solved, what it shows read."""

from typing import Any

from streamlit.testing.v1 import AppTest

from explorer.jobs.batch import Batch
from tests.support.root import ROOT
from tests.support.waiting import PATIENCE_S

APP = str(ROOT / "explorer" / "app.py")


def opened(sample: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    app.query_params["sample"] = sample
    return solved(app.run())


def solved(app: AppTest) -> AppTest:
    """Run the page until no solve is under way."""
    for _ in range(100):
        assert not app.exception
        if "run" not in app.session_state or app.session_state["run"] is None:
            return app
        app.session_state["run"].job.wait(60)
        app.run()
    raise AssertionError("the solve never ended")


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def unescaped(text: str) -> str:
    """Return a text of the page as one reads it: without the escapes of Markdown, all spaces alike."""
    return text.replace("\\", "").replace("\xa0", " ")


def number(app: AppTest, label: str) -> Any:
    return next(box for box in app.number_input if box.label == label)


def visited(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = value
    return solved(app.run())


def address(app: AppTest) -> dict[str, str]:
    return {name: value[-1] if isinstance(value, list) else value for name, value in app.query_params.items()}


QUERIES: list[dict[str, str]] = [
    {"sample": "teaching_chain", "accelerators": "2", "memory": "none", "bandwidth": "3.5", "limit": "7"},
    {
        "sample": "unet_operator_training",
        "objective": "gpipe",
        "splits": "convex",
        "solver": "ip",
        "micro_batches": "9",
    },
    {"sample": "unet_operator_inference", "objective": "latency", "subgraphs": "2", "cpus": "0"},
    {"sample": "unet_operator_training", "transfers": "overlapped", "schedule": "gpipe", "in_flight": "yes"},
    {"sample": "teaching_convex_beats_chain", "accelerators": "4", "per_server": "2", "server_links": "4"},
    {"sample": "teaching_convex_beats_chain", "transfers": "full-duplex", "replicas": "2", "accelerators": "4"},
]


def html(app: AppTest) -> str:
    return " ".join(element.proto.body for element in app.get("html")).replace("\xa0", " ")


def is_over(batch: Batch) -> bool:
    """Have a batch start its next questions; tell whether there are none left."""
    batch.advance()
    return batch.is_over
