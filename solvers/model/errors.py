"""Errors for input a user can mend; each message names the place and the remedy in one sentence."""


class PlacementError(ValueError):
    """Bad input of any kind; the message is fit to be shown to a user as it is."""


class GraphError(PlacementError):
    """A graph file or graph that cannot be used."""


class SourceError(PlacementError):
    """A model of another program that cannot be imported."""


class DeploymentError(PlacementError):
    """A set of devices that cannot be used."""


class SplitError(PlacementError):
    """A split that does not belong to its graph."""
