"""function-environment-configs v0.2.0: as v0.1.0, but `defaultData` always counts."""

from __future__ import annotations

from kanister_py.functions.composition.environment_configs.v0_1_0 import EnvironmentConfigs


class EnvironmentConfigsV020(EnvironmentConfigs):
    """Merge EnvironmentConfigs, chosen by name or by labels, into the environment.

    As v0.1.0, but `defaultData` is merged under the environment also where no
    EnvironmentConfigs are listed, where v0.1.0 passes it over in silence.
    """

    version = "v0.2.0"
    gives_defaults = True
