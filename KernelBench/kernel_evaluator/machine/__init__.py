"""What a machine is: its devices, their peak rates and architectures, the facts that results record.

In: makers' tools and `figures.json`. Out: names and figures. May import: records.
"""
