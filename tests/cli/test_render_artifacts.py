"""Inputs of steps that `render` reads from a registry, with the login of docker."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.cli.render_files import XR, composition, patching
from tests.conftest import CommandLine
from tests.oci_registry import running_registry


def test_step_input_is_read_from_a_registry(kanister: CommandLine, tmp_path: Path) -> None:
    step = patching()
    with running_registry(tmp_path / "registry") as registry:
        package = registry.push_files("team/in", input__yaml=json.dumps(step.pop("input")).encode())
        login = {"username": registry.login.username, "password": registry.login.password}
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.address: login}}))
        step["inputRef"] = {"ociRef": {"package": str(package)}}
        (tmp_path / "xr.yaml").write_text(XR)
        (tmp_path / "composition.yaml").write_text(composition(step))
        words = ("render", "xr.yaml", "composition.yaml")
        done = kanister(*words, cwd=tmp_path, env={"DOCKER_CONFIG": str(tmp_path)})
        assert done.code == 0, done.err
        (_, bucket) = yaml.safe_load_all(done.out)
        assert bucket["data"] == {"r": "eu"}
        refused = kanister(*words, cwd=tmp_path, env={"DOCKER_CONFIG": str(tmp_path / "none")})
        assert refused.code == 1
        assert "the registry denies access without a login" in refused.err
