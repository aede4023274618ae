"""The engines: where an evaluation runs. Each implements `kernel_evaluator.problems.jobs.Engine`.

In: jobs. Out: verdicts as they come. May import: everything here.
"""
