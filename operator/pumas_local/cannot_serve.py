"""CannotServe: why a command of ours cannot do what it was asked for."""


class CannotServe(Exception):
    """One sentence for the terminal: what is wrong and what to do."""
