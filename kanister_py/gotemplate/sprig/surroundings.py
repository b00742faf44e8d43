"""What would show a template the machine it runs on: known by name, refused when called."""

from __future__ import annotations

from kanister_py.gotemplate.functions import Function, GoError, go_function


def _refused(why: str) -> Function:
    def refuse(_: str) -> str:
        raise GoError(why)

    return go_function("func(string) (string, error)")(refuse)


_NO_ENVIRONMENT = "a template does not see the environment of the process that renders it"
_NO_NETWORK = "a template does not reach the network"

OF_BLUEPRINTS = {
    "env": _refused(_NO_ENVIRONMENT),
    "expandenv": _refused(_NO_ENVIRONMENT),
    "getHostByName": _refused(_NO_NETWORK),
}
OF_COMPOSITIONS = {"getHostByName": OF_BLUEPRINTS["getHostByName"]}
