"""Everything that can go wrong, by name. All are a `NextpairError`."""

__all__ = [
    "ArrayTypeError",
    "FileError",
    "GuardError",
    "InputError",
    "InternalError",
    "NextpairError",
    "PartsError",
    "SelectionWarning",
    "SettingError",
    "StrategyError",
]


class NextpairError(Exception):
    """Whatever nextpair raises."""


class InputError(NextpairError, ValueError):
    """Data that cannot be used: a shape, a NaN, an empty pool. It begins with the argument's name."""


class ArrayTypeError(NextpairError, TypeError):
    """An array of something that is not a real number. It begins with the argument's name."""


class SettingError(NextpairError, ValueError):
    """A parameter that cannot be, or does not go with the others."""


class StrategyError(NextpairError, ValueError):
    """A strategy of yours that did not pick what was asked for."""


class PartsError(NextpairError, ValueError):
    """Parts of a selection that do not belong together, or are not all there."""


class FileError(NextpairError, OSError):
    """A file that could not be written or read."""


class GuardError(NextpairError):
    """With `guard="raise"`: something looks wrong about the data or the picks."""


class InternalError(NextpairError, RuntimeError):
    """A mistake in nextpair. Please report it."""


class SelectionWarning(UserWarning):
    """Something looks wrong about the data or the picks, before anybody is paid."""
