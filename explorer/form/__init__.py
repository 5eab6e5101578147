"""The side bar: graph, devices, assumptions, schedule."""
