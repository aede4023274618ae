"""The board: validate, plan, build, evaluate, record, aggregate, render; one module a stage."""
