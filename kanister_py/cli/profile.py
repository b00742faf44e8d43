"""Create Profiles, and test their object stores.

kanister-py profile create s3 backups --bucket b --region eu-west-1 > profile.yaml
kanister-py profile validate -f profile.yaml
kanister-py profile validate kanister/backups --context staging -o json

`create` prints a Secret and a Profile; with --context, --kubeconfig or --in-cluster it creates
them. Pass keys in the environment rather than as flags: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AZURE_STORAGE_ACCOUNT, AZURE_STORAGE_KEY. `validate` checks the Profile,
lists the bucket, and writes, reads and deletes an object. The folder of a Profile of type file
must exist.
"""

from __future__ import annotations

import argparse
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from kanister_py.cli import exit_codes
from kanister_py.cli.connection import add_connection, is_connected, open_connection
from kanister_py.cli.inputs import objects_in
from kanister_py.cli.output import Line, Tint, say, write_data, write_list
from kanister_py.cli.parser import CommandLineError, add_output, add_verbs, repeated, switch
from kanister_py.core.actionsets.references import parse_place
from kanister_py.core.blueprints.profiles import ProfileObject
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.locations import InvalidProfile, read_location
from kanister_py.core.kube.names import dns_label_problem, dns_subdomain_problem
from kanister_py.core.kube.resources import PROFILES
from kanister_py.core.models import unknown_keys
from kanister_py.core.templates.facts import needs_of_profile, resolve_profile
from kanister_py.core.yaml.documents import text_of_path
from kanister_py.wiring import object_stores

if TYPE_CHECKING:
    from kanister_py.core.kube.locations import Location
    from kanister_py.ports.object_store import ObjectStore, ObjectStores

_PROBE = "kanister-py-probe"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    create = verbs.add_parser(
        "create",
        help="create a Profile with its Secret",
        description="Print a Profile with its Secret, or create both on a cluster."
        "\n\nkanister-py profile create s3 backups --bucket b --region eu-west-1\n",
    )
    create.add_argument("type", choices=("s3", "gcs", "azure", "file"))
    create.add_argument("name", metavar="NAME")
    create.add_argument("-n", "--namespace", default="", help="default: kanister")
    create.add_argument(
        "--bucket", required=True, help="name of the bucket, or of the Azure container"
    )
    create.add_argument(
        "--endpoint", default="", help="address of the store, or path of the folder"
    )
    create.add_argument("--region", default="", help="region of the bucket")
    create.add_argument("--prefix", default="", help="prefix of all paths")
    switch(create, "--skip-ssl-verify", help="do not verify the certificate of the store")
    keys = create.add_argument_group("credentials")
    keys.add_argument("--access-key", default=os.environ.get("AWS_ACCESS_KEY_ID", ""))
    keys.add_argument("--secret-key", default=os.environ.get("AWS_SECRET_ACCESS_KEY", ""))
    keys.add_argument("--role", default="", help="AWS role to assume")
    keys.add_argument("--project-id", default="", help="Google Cloud project")
    keys.add_argument(
        "--service-account", default="", metavar="FILE", help="JSON key of a Google service account"
    )
    keys.add_argument("--storage-account", default=os.environ.get("AZURE_STORAGE_ACCOUNT", ""))
    keys.add_argument("--storage-key", default=os.environ.get("AZURE_STORAGE_KEY", ""))
    keys.add_argument("--environment", default="", help="AzureCloud, AzureChinaCloud, …")
    add_output(create, ("yaml", "json"))
    add_connection(create)
    validate = verbs.add_parser(
        "validate",
        help="test a Profile and its store",
        description="Check a Profile and test its store: list, write, read and delete."
        "\n\nkanister-py profile validate -f profile.yaml\n",
    )
    add_profile(validate)
    switch(validate, "--schema-only", help="check the Profile only, without its store")
    add_output(validate, ("text", "json", "yaml"))


def run(args: argparse.Namespace) -> int:
    return _create(args) if args.verb == "create" else _validate(args)


# create


def _create(args: argparse.Namespace) -> int:
    args.namespace = args.namespace or "kanister"
    _check_flags(args)
    objects = _objects_of(args)
    if not is_connected(args):
        write_list(objects, args.output)
        return 0
    with open_connection(args) as cluster:
        for obj in objects:
            cluster.create(obj)
            say(f"{obj['kind'].lower()} {args.namespace}/{obj['metadata']['name']} created")
    return 0


def _check_flags(args: argparse.Namespace) -> None:
    """Refuse names and addresses that an API server or a store would reject."""

    if problem := dns_subdomain_problem(f"{args.name}-credential"):
        raise CommandLineError(f"NAME {args.name!r} is not a valid name of a Profile: {problem}")
    if problem := dns_label_problem(args.namespace):
        raise CommandLineError(
            f"--namespace {args.namespace!r} is not a valid namespace: {problem}"
        )
    endpoint = args.endpoint
    if not endpoint:
        return
    if args.type == "file":
        if not endpoint.removeprefix("file://").startswith("/"):
            raise CommandLineError(
                f"--endpoint {endpoint!r} is not the absolute path of a folder, such as /backups"
            )
        return
    try:
        address = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        is_address = address.scheme in ("http", "https") and bool(address.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise CommandLineError(
            f"--endpoint {endpoint!r} is not an address of a store; use HOST, http://HOST or "
            "https://HOST"
        )


_TYPES = {"s3": "s3Compliant", "gcs": "gcs", "azure": "azure", "file": "file"}


def _objects_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the Secret and the Profile that the command line describes."""
    secret_name = f"{args.name}-credential"
    reference = {"name": secret_name, "namespace": args.namespace}
    kind, data = _secret_of(args)
    metadata = {"name": secret_name, "namespace": args.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
    if kind:
        secret["type"] = kind
        credential: dict[str, Any] = {"type": "secret", "secret": reference}
    else:
        pair = {"idField": "id", "secretField": "secret", "secret": reference}
        credential = {"type": "keyPair", "keyPair": pair}
    location = {
        "type": _TYPES[args.type],
        "bucket": args.bucket,
        "endpoint": args.endpoint,
        "prefix": args.prefix,
        "region": args.region,
    }
    profile = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Profile",
        "metadata": {"name": args.name, "namespace": args.namespace},
        "location": {key: text for key, text in location.items() if text},
        "credential": credential,
        "skipSSLVerify": args.skip_ssl_verify,
    }
    return [secret, profile]


def _secret_of(args: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """Return the type and the data of the Secret; no type for a plain key pair."""
    match args.type:
        case "s3":
            _require(args, access_key="AWS_ACCESS_KEY_ID", secret_key="AWS_SECRET_ACCESS_KEY")  # noqa: S106 - names of variables
            if not args.role:
                return "", {"id": args.access_key, "secret": args.secret_key}
            return "secrets.kanister.io/aws", {
                "aws_access_key_id": args.access_key,
                "aws_secret_access_key": args.secret_key,
                "role": args.role,
            }
        case "gcs":
            _require(args, project_id="", service_account="")
            key = Path(args.service_account).read_text(encoding="utf-8")
            return "", {"id": args.project_id, "secret": key}
        case "azure":
            _require(args, storage_account="AZURE_STORAGE_ACCOUNT", storage_key="AZURE_STORAGE_KEY")
            if not args.environment:
                return "", {"id": args.storage_account, "secret": args.storage_key}
            return "secrets.kanister.io/azure", {
                "azure_storage_account_id": args.storage_account,
                "azure_storage_key": args.storage_key,
                "azure_storage_environment": args.environment,
            }
    _require(args, endpoint="")
    return "secrets.kanister.io/filestore", {}


def _require(args: argparse.Namespace, **variables: str) -> None:
    for name, variable in variables.items():
        if not getattr(args, name):
            flag = f"--{name.replace('_', '-')}"
            hint = f"; set it or the variable {variable}" if variable else ""
            raise CommandLineError(f"{flag} is missing{hint}")


# validate


class Check(NamedTuple):
    """Step of a validation, which passed if `error` is empty."""

    name: str
    error: str = ""
    reason: str = ""
    is_skipped: bool = False


def _validate(args: argparse.Namespace) -> int:
    checks = list(_checks(args))
    is_valid = not any(check.error for check in checks)
    data = {
        "valid": is_valid,
        "checks": [
            {
                "name": check.name,
                "outcome": _outcome(check),
                **({"error": check.error, "reason": check.reason} if check.error else {}),
            }
            for check in checks
        ],
    }
    write_data(data, args.output, lambda: map(_line_of, checks))
    return 0 if is_valid else exit_codes.FAILED


def _outcome(check: Check) -> str:
    if check.is_skipped:
        return "skipped"
    return "failed" if check.error else "passed"


def _line_of(check: Check) -> Line:
    colours = {"passed": "green", "failed": "red", "skipped": "dim"}
    outcome = _outcome(check)
    more = f": {check.error}" if check.error else ""
    return [Tint(f"{outcome:7}", colours[outcome]), f"  {check.name}{more}"]


def _checks(args: argparse.Namespace) -> Iterator[Check]:
    """Run the steps in order; after a failure, the others are skipped."""
    locations: list[Location] = []
    stores: list[ObjectStore] = []
    probe = f"{_PROBE}-{os.urandom(6).hex()}"

    def key() -> str:
        return locations[0].key_of(probe)

    steps: dict[str, Callable[[], object]] = {
        "schema and credential": lambda: locations.append(read_profile(args)),
        "reachable, bucket and region": lambda: stores.append(
            _opened(object_stores(), locations[0])
        ),
        "list": lambda: next(stores[0].list(key()), None),
        "write": lambda: stores[0].put(key(), [b"probe"]),
        "read": lambda: _read(stores[0], key()),
        "delete": lambda: stores[0].delete([key()]),
    }
    has_failed, attempted = False, list[str]()
    for name, step in steps.items():
        if has_failed or (args.schema_only and name != "schema and credential"):
            yield Check(name, is_skipped=True)
            continue
        attempted.append(name)
        try:
            step()
        except KanisterError as error:
            has_failed = True
            yield Check(name, error.message, error.reason)
        else:
            yield Check(name)
    if has_failed and "write" in attempted:
        # A write without a response may have succeeded.
        with suppress(KanisterError):
            stores[0].delete([key()])


def _opened(stores: ObjectStores, location: Location) -> ObjectStore:
    stores.open(location.before_writing()).check()
    return stores.open(location)


def _read(store: ObjectStore, key: str) -> None:
    content = b"".join(store.get(key))
    if content != b"probe":
        raise UsageError(
            f"The store returned {len(content)} different bytes", reason="ObjectDamaged"
        )


# Profiles with their credentials


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Add the flags that name a Profile."""
    parser.add_argument(
        "profile",
        nargs="?",
        default="",
        metavar="[NAMESPACE/]NAME",
        help="name of a Profile on the cluster",
    )
    repeated(
        parser,
        "-f",
        "--file",
        metavar="FILE",
        help="read the Profile and its Secrets from files, `-` for stdin",
    )
    add_connection(parser)
    parser.add_argument("-n", "--namespace", default="", help="namespace of the Profile")


def read_profile(args: argparse.Namespace) -> Location:
    """Read the Profile of the command line with its credential."""
    if bool(args.profile) == bool(args.file):
        raise CommandLineError("Name either a Profile of a cluster, or a file with --file")
    profile, secrets = _from_files(args) if args.file else _from_cluster(args)
    parsed = resolve_profile(profile, secrets)
    pair = (parsed.key_pair.id, parsed.key_pair.secret) if parsed.key_pair else None
    return read_location(
        parsed.location, pair, parsed.secret, skip_tls_verify=parsed.skip_ssl_verify
    )


def _from_cluster(args: argparse.Namespace) -> tuple[Any, dict[Any, Any]]:
    with open_connection(args) as cluster:
        place = parse_place(args.profile, args.namespace)
        profile = cluster.get(PROFILES, place.name, namespace=place.namespace)
        needs = needs_of_profile(profile)
        return profile, {
            need: cluster.get(need.resource, need.name, namespace=need.namespace) for need in needs
        }


def _from_files(args: argparse.Namespace) -> tuple[Any, dict[Any, Any]]:

    if is_connected(args):
        raise CommandLineError("--file cannot be combined with flags for a cluster")
    objects = list(objects_in(args.file))
    profiles = [obj for obj in objects if obj.get("kind") == "Profile"]
    if len(profiles) != 1:
        raise InvalidProfile(
            f"Found {len(profiles)} Profiles in {', '.join(args.file)}, one is needed"
        )
    _refuse_unknown_keys(profiles[0])
    secrets: dict[Any, Any] = {}
    for need in needs_of_profile(profiles[0]):
        for obj in objects:
            if obj.get("kind") == "Secret" and obj["metadata"]["name"] == need.name:
                plain = obj.get("stringData") or {}
                data = {key: b64encode(str(text).encode()).decode() for key, text in plain.items()}
                secrets[need] = {**obj, "data": {**(obj.get("data") or {}), **data}}
        if need not in secrets:
            raise InvalidProfile(
                f"Secret {need.namespace}/{need.name}, which the Profile names, is not in the files"
            )
    return profiles[0], secrets


def _refuse_unknown_keys(profile: Any) -> None:
    """Refuse unknown keys, which an API server would drop silently."""
    unknown = [*unknown_keys(ProfileObject, profile)]
    if unknown:
        keys = "; ".join(f"{text_of_path(key.path)}{key.suggestion}" for key in unknown)
        raise InvalidProfile(f"Unknown keys of the Profile: {keys}")
