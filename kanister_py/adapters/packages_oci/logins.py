"""Registry logins, as stored by container tools on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from kanister_py.core.errors import UsageError
from kanister_py.ports.packages import RegistryLogin, credentials_in

_SECONDS: Final = 30.0


def login_for(registry: str) -> RegistryLogin | None:
    """Return the login for a registry that `docker login` stored; None if there is none."""
    folder = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
    path = Path(folder) / "config.json"
    try:
        config: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise _invalid(path, "it is not valid JSON") from error
    if not isinstance(config, dict):
        raise _invalid(path, "it is not a JSON object")
    https = f"https://{registry}"
    for key in (registry, https, f"{https}/v1/", f"{https}/v2/"):
        login = _from_helper(config, registry, key) or _from_config_file(config, key, path)
        if login is not None:
            return RegistryLogin(registry, *login)
    return None


def _from_config_file(config: dict[str, Any], key: str, path: Path) -> tuple[str, str] | None:
    login = (config.get("auths") or {}).get(key)
    if not isinstance(login, dict):
        return None
    try:
        credentials = credentials_in(login)
    except ValueError as error:
        raise _invalid(path, f"the login of {key} is not valid base64") from error
    return credentials if credentials[0] or login.get("auth") else None


def _from_helper(config: dict[str, Any], name: str, key: str) -> tuple[str, str] | None:
    """Run the credential helper. It signals by its exit code that it has no login."""
    helpers = config.get("credHelpers") or {}
    helper = helpers.get(name)
    if helper is None and key in (config.get("auths") or {}):
        helper = config.get("credsStore")
    program = shutil.which(f"docker-credential-{helper}") if helper else None
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 # the program named in the user's own file
            [program, "get"],
            input=key,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else {}
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    username, password = str(answer.get("Username") or ""), str(answer.get("Secret") or "")
    return (username, password) if username and password else None


def _invalid(path: Path, why: str) -> UsageError:
    return UsageError(f"{path}: {why}", reason="InvalidDockerConfig")
