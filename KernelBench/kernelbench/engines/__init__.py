"""The engines: where an evaluation runs. Each module holds an implementation of `kernelbench.jobs.Engine`."""
