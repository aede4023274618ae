"""The subcommands of `kbl`: each module parses one command's arguments, calls its stage and prints what it says."""
