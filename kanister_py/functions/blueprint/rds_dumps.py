"""Dumps of PostgreSQL on RDS, which a pod writes to the Profile's store or reads from there."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from pydantic import Field

from kanister_py.core.errors import AlreadyExists, NotFound
from kanister_py.core.kube.resources import SECRETS
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.pods import JOB_PREFIX, Job, PodArgs, pod_of, running, spec_of
from kanister_py.functions.blueprint.repositories import store_of
from kanister_py.ports.function import PhaseContext

_IMAGE: Final = "ghcr.io/kanisterio/postgres-kanister-tools:0.119.0"
_SECRET_PREFIX: Final = "postgres-secret-"  # noqa: S105 - the name of a Secret, no secret
WRITE_DUMP: Final = """\
cd "$(mktemp -d)"
[ -n "$DATABASES" ] || DATABASES=$(psql -d postgres -At -c "SELECT datname FROM pg_database \
WHERE datallowconn AND NOT datistemplate AND datname NOT IN ('postgres', 'rdsadmin')")
for name in $DATABASES; do
  pg_dump --clean --if-exists --create --inserts "$name" >"$name.sql"
done
tar -cz -- *.sql | kando location push --profile "$PROFILE" --path "$DUMP" -
"""
READ_DUMP: Final = """\
cd "$(mktemp -d)"
kando location pull --profile "$PROFILE" --path "$DUMP" - | tar -xz
for file in *.sql; do psql -q -v ON_ERROR_STOP=1 -d postgres -f "$file"; done
"""


class DumpArgs(PodArgs):
    """Arguments for the pod that writes or reads a dump, and for its database user."""

    namespace: str = Field(default="", description="The namespace in which the pod runs.")
    username: str = Field(default="", description="The database user.")
    password: str = Field(default="", description="The password of the database user.")

    def login(self) -> dict[str, str]:
        return {
            "username": self.username,
            "password": self.password,
            "namespace": self.namespace,
        }


def run_script(
    ctx: PhaseContext,
    params: Params,
    function: str,
    args: DumpArgs,
    endpoint: Mapping[str, Any],
    path: str,
    script: str,
    databases: list[str] | None = None,
) -> None:
    """Run a script in a pod that writes a dump to an object of the Profile's store, or reads it."""
    store_of(ctx, params)
    ctx.conceal(args.password)
    hidden = {
        "PGUSER": args.username,
        "PGPASSWORD": args.password,
        "PROFILE": printed_profile(params),
    }
    plain = {
        "PGHOST": str(endpoint["Address"]),
        "PGPORT": str(endpoint["Port"]),
        "DUMP": path,
    }
    if databases is not None:
        plain["DATABASES"] = " ".join(databases)
    with _secret(ctx, args.namespace, hidden) as name:
        reference = [
            {"name": key, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
            for key in hidden
        ]
        env = [*({"name": key, "value": text} for key, text in plain.items()), *reference]
        command = ["bash", "-o", "errexit", "-o", "pipefail", "-c", script]
        spec = spec_of(_IMAGE, command, env=env)
        job = Job(JOB_PREFIX, args.namespace, spec, args, params.facts.pod_override)
        with running(ctx, function, pod_of(ctx, params, job)) as pod:
            pod.wait_until_ready()
            pod.read_outputs()
            pod.wait_for_end()


@contextmanager
def _secret(ctx: PhaseContext, namespace: str, hidden: Mapping[str, str]) -> Iterator[str]:
    """Create a Secret for the duration of the block."""
    name = _SECRET_PREFIX + ctx.run.key("secret")
    namespace = namespace or ctx.cluster.default_namespace
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": ctx.labels(),
        "ownerReferences": ctx.owner_references(namespace),
    }
    data = {key: b64encode(text.encode()).decode() for key, text in hidden.items()}
    with suppress(AlreadyExists):
        ctx.cluster.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        )
    try:
        yield name
    finally:
        with suppress(NotFound):
            ctx.cluster.delete(SECRETS, name, namespace=namespace)


def printed_profile(params: Params) -> str:
    """Return the Profile as JSON for kando, like the template `toJson .Profile`."""
    profile = params.facts.profile
    assert profile is not None
    pair = profile.key_pair
    return json.dumps(
        {
            "Location": dict(profile.location),
            "Credential": {
                "Type": profile.credential_type,
                "KeyPair": {"ID": pair.id, "Secret": pair.secret} if pair else None,
                "Secret": profile.secret,
            },
            "SkipSSLVerify": profile.skip_ssl_verify,
        }
    )
