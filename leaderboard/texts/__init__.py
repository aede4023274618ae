"""Text that strangers wrote: where its JSON values stand, and how it is shown without harm.

In: text. Out: positions, escaped text. May import: nothing else here.
"""
