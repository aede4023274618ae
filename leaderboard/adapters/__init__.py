"""Other people's training frameworks over our server: thin environments that hold no rule of their own.

In: a model's replies, as the framework hands them on. Out: rewards and feedback. May import: reward and
below, and the framework of that file alone, in an environment of its own.
"""
