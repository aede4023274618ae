"""The subcommands of `kbl`: each module parses arguments, calls its stage and prints what it says."""
