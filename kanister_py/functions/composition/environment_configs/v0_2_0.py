"""function-environment-configs v0.2.0: like v0.1.0, but `defaultData` is always merged."""

from __future__ import annotations

from kanister_py.functions.composition.environment_configs.v0_1_0 import EnvironmentConfigs


class EnvironmentConfigsV020(EnvironmentConfigs):
    """Merges EnvironmentConfigs, selected by name or by labels, into the environment.

    Like v0.1.0, except that `defaultData` is also merged if no EnvironmentConfigs are listed,
    in which case v0.1.0 ignores it.
    """

    version = "v0.2.0"
    gives_defaults = True
