"""A question as project files hold it."""

from explorer.jobs.record import Question
from solvers.samples import read_sample

GRAPH, DEPLOYMENT = read_sample("teaching_chain")


QUESTION = Question(GRAPH.digest, DEPLOYMENT, time_limit_s=60.0)
