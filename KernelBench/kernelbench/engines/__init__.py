"""The engines: where an evaluation runs. Each module here holds one implementation of `kernelbench.jobs.Engine`."""
