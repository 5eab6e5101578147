"""Visitors of the server, and graphs that they share."""

from explorer.jobs.record import Question
from explorer.state.project import project_of
from explorer.state.query import Link
from explorer.state.records import LoadedGraph
from solvers.samples import read_sample

ME, OTHER = "m" * 32, "o" * 32
"""Their cookies."""
GRAPH, DEPLOYMENT = read_sample("teaching_chain")
LOADED = LoadedGraph(GRAPH, DEPLOYMENT, "mine.json")
QUESTION = Question(GRAPH.digest, DEPLOYMENT)
PROJECT = project_of(LOADED, Link(graph=GRAPH.digest[:12], values={"accelerators": 2}), None, QUESTION)
