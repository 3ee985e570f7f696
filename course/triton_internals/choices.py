"""What the decorators above `@triton.jit` choose for a launch."""

import inspect
from collections.abc import Sequence
from typing import Any

import triton
from triton import KernelInterface

from course.errors import CourseError
from course.type_names import AnyValue, AnyValues, kind_of

from .jit_functions import inner_kernel, layers


def with_choices(kernel: KernelInterface, args: Sequence[AnyValue], kwargs: AnyValues) -> AnyValues:
    """A launch's arguments by name, with what `@triton.heuristics` chooses, and the configuration
    of `@triton.autotune` that `config` names, which is left out.

    What is given by name stands against a configuration. Raises CourseError that says what cannot
    be chosen.
    """
    parameters = inspect.signature(inner_kernel(kernel).fn).parameters
    by_place, named = dict(zip(parameters, args, strict=False)), dict(kwargs)
    config = None if "config" in parameters else named.pop("config", None)
    picked = {} if config is None else picked_config(kernel, config).all_kwargs()
    for layer in layers(kernel):
        if configs := getattr(layer, "configs", None):
            named = picked | named
            _refuse_open(configs, parameters, by_place | named)
        for name, choose in getattr(layer, "values", {}).items():
            if name not in by_place | named:
                named[name] = _chosen(name, choose, by_place | named)
    return named


def configs_of(kernel: KernelInterface) -> list[triton.Config]:
    """The configurations that `@triton.autotune` chooses from; none for other kernels."""
    there = (getattr(layer, "configs", None) for layer in layers(kernel))
    return list(next(filter(None, there), []))


def config_text(config: triton.Config) -> str:
    """A configuration's values and its warps, as a launch would be given them."""
    values = config.kwargs | {"num_warps": config.num_warps}
    return ", ".join(f"{name}={value}" for name, value in values.items())


def picked_config(kernel: KernelInterface, config: Any) -> triton.Config:
    """The configuration that `config` names. Raises CourseError if it names none."""
    configs = configs_of(kernel)
    if not configs:
        raise CourseError(
            f"{inner_kernel(kernel).fn.__name__} is not under @triton.autotune: it has no "
            "configurations, so leave config out."
        )
    if isinstance(config, triton.Config):
        return config
    if type(config) is int and 0 <= config < len(configs):
        return configs[config]
    given = config if isinstance(config, int) else kind_of(config)
    raise CourseError(
        f"config is {given}: give the number of a configuration, 0 to {len(configs) - 1}, or a "
        "triton.Config."
    )


def _refuse_open(configs: Sequence[triton.Config], parameters: Any, given: AnyValues) -> None:
    """Raise CourseError for parameters that a configuration must give and none was chosen."""
    open_names = [
        name
        for name, parameter in parameters.items()
        if name not in given
        and parameter.default is parameter.empty
        and any(name in config.kwargs for config in configs)
    ]
    if open_names:
        raise CourseError(
            f"@triton.autotune chooses {', '.join(open_names)}: give config=0 for its first "
            f"configuration ({config_text(configs[0])}) of {len(configs)}, which course.configs "
            "shows, or the values by name."
        )


def _chosen(name: str, choose: Any, arguments: AnyValues) -> AnyValue:
    """What a function of `@triton.heuristics` chooses."""
    try:
        return choose(arguments)
    except KeyError as error:
        raise CourseError(
            f"@triton.heuristics chooses {name} by {error.args[0]}: give that by name."
        ) from error
    except Exception as error:
        raise CourseError(
            f"@triton.heuristics could not choose {name} from these arguments "
            f"({type(error).__name__}: {error}): give it by name."
        ) from error
