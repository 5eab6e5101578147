"""A small profile in each format: four layers, one of which is read twice."""

from typing import Any

PIPEDREAM = """\
node1 -- Input0 -- forward_compute_time=5.000, backward_compute_time=0.000, activation_size=100.0, parameter_size=0.000
node2 -- Embedding(10, 4) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=4000.0, parameter_size=160.000
node3 -- LSTM(4, 4) -- forward_compute_time=3.000, backward_compute_time=5.000, activation_size=[3000.0; 500.0; 500.0], parameter_size=512.000
node4 -- __getitem__(0) -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=3000.0, parameter_size=0.000
node5 -- __getitem__(1) -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=500.0, parameter_size=0.000
node6 -- Add(inplace) -- forward_compute_time=0.500, backward_compute_time=0.250, activation_size=3000.0, parameter_size=0.000
node7 -- Linear(in_features=4, out_features=10, bias=True) -- forward_compute_time=2.000, backward_compute_time=4.000, activation_size=8000.0, parameter_size=200.000
\tnode1 -- node2
\tnode2 -- node3
\tnode3 -- node4
\tnode3 -- node5
\tnode4 -- node6
\tnode2 -- node6
\tnode6 -- node7
"""  # noqa: E501 -- lines of the format


def piper() -> dict[str, Any]:
    """Return a chain of three layers of which the first is read by both others, with different sizes."""

    def node(number: int, seconds: float, parameters: float) -> dict[str, Any]:
        plain = {
            "id": "vanilla",
            "timePerSample": seconds,
            "parameterSize": parameters,
            "memoryUsageA": 1000.0 * (number + 1),
            "memoryUsageB": 2 * parameters,
            "syncTimeFw": {},
            "syncTimeBw": {"1": 0.0},
        }
        again = {**plain, "id": "activation recomp", "timePerSample": 1.4 * seconds, "memoryUsageA": 10.0}
        return {"id": 10 * number, "name": f"layer{number}", "TMPCs": {"1": [again, plain], "2": [plain]}}

    return {
        "maxDevices": 2,
        "maxMemoryPerDevice": 8e9,
        "bandwidth": 25e9,
        "mbsInBatch": 64,
        "nodes": [node(0, 0.003, 400.0), node(1, 0.006, 800.0), node(2, 0.0045, 0.0)],
        "edges": [
            {"sourceId": 0, "destId": 10, "communicationCost": 25e6},
            {"sourceId": 0, "destId": 20, "communicationCost": 50e6},
            {"sourceId": 10, "destId": 20, "communicationCost": 75e6},
        ],
    }
