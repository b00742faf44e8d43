"""Repositories of restic, accessed by the data functions through commands in pods."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from posixpath import join
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

from pydantic import Field

from kanister_py.core.errors import (
    ApiError,
    CommandFailed,
    KanisterError,
    TransientError,
    UsageError,
)
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.locations import InvalidProfile, Location, StoreKind, read_location
from kanister_py.core.templates.facts import Workload
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.claims import access_to_claim, spec_with_claims
from kanister_py.functions.blueprint.commands import (
    Target,
    access_to_commands,
    call_at_once,
    run_in_container,
)
from kanister_py.functions.blueprint.pods import Job, PodArgs, PodFunc, pod_of, running, spec_of
from kanister_py.functions.blueprint.restic import (
    GOOGLE_CREDENTIALS_FILE,
    BackupSummary,
    environment,
    prefix_with_bucket,
    read_backup_log,
    read_freed_bytes,
    read_only_snapshot,
    read_stats_log,
    shell_command,
)
from kanister_py.ports.cluster import Channel
from kanister_py.ports.function import PhaseContext, interrupted
from kanister_py.ports.models import Args
from kanister_py.ports.pods import VOLUMES_ONLY

IDLE_COMMAND: Final = ("sh", "-c", "tail -f /dev/null")
DEFAULT_KEY: Final = "9f735e0df9a1ddc702bf0a1a7b83033f9f7153a00c29de82cedadc9957289b05"
"""Default encryption key of the original functions, which is publicly known."""
HELPER_ANNOTATIONS: Final = MappingProxyType({VOLUMES_ONLY: "true"})
"""Annotations of the pods that run restic."""
_IMAGE_VARIABLE: Final = "KANISTER_TOOLS"
_IMAGE: Final = "ghcr.io/kanisterio/kanister-tools:0.119.0"
_TAG_LENGTH: Final = 10

T = TypeVar("T")

REPOSITORY_PREFIX: Final[Any] = Field(
    description="Path of the repository in the bucket of the Profile; may start with the name "
    "of the bucket.",
)
POD_NAMES: Final[Any] = Field(
    default="",
    description="The names of the pods, separated by spaces; by default, the pods of the "
    "action's workload.",
)


class RepositoryArgs(Args):
    """Arguments of functions that use a repository of restic."""

    needs_repository: ClassVar = True
    unquoted: ClassVar = (
        "backupArtifactPrefix",
        "backupID",
        "backupIdentifier",
        "backupInfo",
        "backupPath",
        "backupTag",
        "includePath",
        "restorePath",
        "statsMode",
    )
    """Arguments that become part of a shell command without quotes."""

    encryption_key: str = Field(
        default=DEFAULT_KEY,
        description="The encryption key of the repository. The default key is publicly known.",
    )
    insecure_tls: bool = Field(
        default=False,
        alias="insecureTLS",
        description="Whether to skip the verification of the object store's certificate.",
    )


class HelperArgs(PodArgs, RepositoryArgs):
    """Arguments of functions that run restic in a new pod."""

    image: str = Field(
        default="",
        description="The image of the pod, which must contain bash and restic. By default, the "
        "image in the environment variable `KANISTER_TOOLS`, or Kanister's tools image.",
    )


def tools_image(image: str) -> str:
    """Return the image of a helper pod."""
    return image or os.environ.get(_IMAGE_VARIABLE, "") or _IMAGE


class HelperFunc(PodFunc):
    """Function that runs restic in a new pod."""

    pod_prefix: ClassVar = ""

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        # Commands run in the new pod, not in a pod named in the arguments.
        return [*super().access(args), access_to_commands(args)._replace(name="")]

    @contextmanager
    def repository(
        self,
        ctx: PhaseContext,
        params: Params,
        args: HelperArgs,
        place: Place,
        claims: Mapping[str, str] | None = None,
        part: str = "",
    ) -> Iterator[Repository]:
        """Run an idle pod with claims mounted for the duration of the block.

        If the arguments set no namespace, it runs in the controller's namespace.
        """
        namespace = getattr(args, "namespace", "")
        spec = spec_of(tools_image(args.image), IDLE_COMMAND)
        if claims:
            spec = spec_with_claims(ctx, namespace, claims, spec)
        override = params.facts.pod_override
        job = Job(self.pod_prefix, namespace, spec, args, override, HELPER_ANNOTATIONS, part)
        with running(ctx, self.name, pod_of(ctx, params, job)) as pod:
            if ctx.is_resumed:
                # A command may still be running in the pod.
                raise interrupted(self.name)
            pod.wait_until_ready()
            target = Target(pod.namespace, pod.name, pod.main_container)
            yield Repository(ctx, place, args, target)


class VolumeFunc(HelperFunc):
    """Function whose pod mounts claims."""

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> list[Access]:
        return [*super().access(args), access_to_claim(args, str(args.get("volume") or ""))]


# Locations


class Place(NamedTuple):
    """Location of a repository: a store, and a path in it that starts with the bucket."""

    location: Location
    path: str

    def below(self, name: str) -> Place:
        """Return the place of the repository of one pod."""
        return self._replace(path=join(self.path, name))


def place_of(ctx: PhaseContext, params: Params, prefix: str) -> Place:
    """Return the place of a prefix in the store of the Profile."""
    return places_of(ctx, params, [prefix])[0]


def places_of(ctx: PhaseContext, params: Params, prefixes: Sequence[str]) -> list[Place]:
    """Return the places of several prefixes in the store of the Profile."""
    location = location_of(ctx, params)
    return [Place(location, prefix_with_bucket(prefix, location)) for prefix in prefixes]


def location_of(ctx: PhaseContext, params: Params) -> Location:
    """Return the location of the Profile, after checking that it supports repositories."""
    location = store_of(ctx, params)
    location.check_repository()
    return location


def store_of(ctx: PhaseContext, params: Params) -> Location:
    """Return the location of the action's Profile with its credential."""
    profile = params.facts.profile
    if profile is None:
        raise InvalidProfile("Failed to validate Profile: Profile must be non-nil")
    pair = (profile.key_pair.id, profile.key_pair.secret) if profile.key_pair else None
    location = read_location(
        profile.location, pair, profile.secret, skip_tls_verify=profile.skip_ssl_verify
    )
    if location.kind is StoreKind.KOPIA:
        raise InvalidProfile(
            "Failed to validate Profile: Location type not supported: there is no kopia here; "
            "use a Profile of type s3Compliant, gcs or azure"
        )
    for value, name in (
        (location.credential.id, "Access key ID"),
        (location.credential.secret, "Secret access key"),
    ):
        if not value and location.kind is StoreKind.S3:
            raise InvalidProfile(f"Failed to validate Profile: {name} is not set")
    return ctx.stores.with_keys(location)


def workload_of(params: Params) -> Workload | None:
    """Return the workload of the action, if it has one."""
    return params.facts.deployment or params.facts.stateful_set or params.facts.deployment_config


def claims_of_pod(params: Params, pod: str) -> Mapping[str, str]:
    """Return the claims that a pod of the workload mounts, and their mount paths."""
    workload = workload_of(params)
    if workload is None:
        raise UsageError("Invalid Template Params", reason="WorkloadNotKnown")
    claims = workload.persistent_volume_claims.get(pod)
    if not claims:
        raise UsageError(f"Failed to find volumes for the Pod: {pod}", reason="VolumesNotFound")
    return claims


# Operations


@dataclass(frozen=True, slots=True)
class Repository:
    """Repository of restic, accessed through commands in a container."""

    ctx: PhaseContext
    place: Place
    args: RepositoryArgs
    target: Target

    def at(self, place: Place) -> Self:
        """Return another repository that is accessed through the same container."""
        return replace(self, place=place)

    def backup(self, folder: str, tag: str) -> BackupSummary:
        """Back up a folder. A repository that cannot be opened is created."""
        with prefixed("Failed to create object store backup location"):
            if not self._is_reachable():
                self._run("init")
        with prefixed("Failed to create and upload backup"):
            log = self._run("backup", "--tag", tag, folder)
        return read_backup_log(log)

    def _is_reachable(self) -> bool:
        try:
            self.latest_snapshots()
        except CommandFailed:
            return False
        return True

    def latest_snapshots(self) -> None:
        """List the latest snapshots; this fails if the repository cannot be opened."""
        self._run("snapshots", "--last", "--json")

    def restore(self, snapshot: Sequence[str], target: str) -> dict[str, str]:
        """Restore a snapshot, given as arguments of `restic restore`, and return the outputs."""
        outputs: dict[str, str] = {}
        with prefixed("Failed to restore backup"):
            self._run("restore", *snapshot, "--target", target, outputs=outputs)
        return outputs

    def snapshot_of_tag(self, tag: str) -> str:
        """Find the snapshot with a tag."""
        with prefixed(f"Failed to forget data, could not get snapshotID from tag, Tag: {tag}"):
            return read_only_snapshot(self._run("snapshots", "--tag", tag, "--json"))

    def forget(self, snapshot: str) -> None:
        with prefixed("Failed to forget data"):
            self._run("forget", snapshot)

    def prune(self) -> int:
        """Delete unreferenced data, and return the number of reclaimed bytes."""
        with prefixed("Error executing prune command"):
            return read_freed_bytes(self._run("prune"))

    def stats(self, snapshot: str, mode: str) -> tuple[str, str]:
        with prefixed("Failed to get backup stats"):
            log = self._run("stats", snapshot, "--mode", mode)
        return read_stats_log(log, mode)

    def _run(self, *words: str, outputs: dict[str, str] | None = None) -> str:
        key, credential = self.args.encryption_key, self.place.location.credential
        for secret in (key, credential.secret, credential.token):
            self.ctx.conceal(secret)
        exported = environment(*self.place, key)
        command = shell_command(exported, words, insecure_tls=self.args.insecure_tls)
        output = bytearray()
        with self._credentials_file():
            try:
                new_outputs = run_in_container(self.ctx, self.target, command, keep=output.extend)
            except ApiError as error:
                raise UsageError(
                    f"Failed to exec command in pod: {error.message}", reason=error.reason
                ) from error
        if outputs is not None:
            outputs.update(new_outputs)
        return output.decode("utf-8", "replace")

    @contextmanager
    def _credentials_file(self) -> Iterator[None]:
        """Provide the key of a service account in a file of the pod while a command runs."""
        if self.place.location.kind is not StoreKind.GCS:
            yield
            return
        write = f"umask 077; cat >{shlex.quote(GOOGLE_CREDENTIALS_FILE)}"
        self._pipe(["sh", "-c", write], self.place.location.credential.secret.encode())
        try:
            yield
        finally:
            self._pipe(["rm", "-f", GOOGLE_CREDENTIALS_FILE], b"")

    def _pipe(self, command: Sequence[str], stdin: bytes) -> None:
        complaint = bytearray()
        cluster, target = self.ctx.cluster, self.target
        with (
            cluster.exec(
                target.pod,
                command,
                namespace=target.namespace,
                container=target.container,
                has_stdin=True,
            ) as session,
            self.ctx.on_cancel(session.close),
        ):
            session.write_stdin(stdin)
            session.close_stdin()
            for chunk in session:
                if chunk.channel is Channel.STDERR:
                    complaint += chunk.data
            if session.exit_code:
                message = complaint.decode("utf-8", "replace").strip()
                raise CommandFailed(f"{command[0]} failed in the pod: {message}", session.exit_code)


def tag_of(ctx: PhaseContext, part: str = "") -> str:
    """Return the tag of this attempt's backup, or of a part of it."""
    return ctx.run.key(f"backup {part}")[:_TAG_LENGTH]


# Errors and concurrent calls


@contextmanager
def prefixed(words: str) -> Iterator[None]:
    """Add a prefix to the messages of errors raised in the block."""
    try:
        yield
    except CommandFailed as error:
        raise CommandFailed(f"{words}: {error.message}", error.exit_code, error.outputs) from error
    except TransientError as error:
        message = f"{words}: {error.message}"
        raise TransientError(message, error.delay_seconds, reason=error.reason) from error
    except UsageError as error:
        raise UsageError(f"{words}: {error.message}", reason=error.reason) from error


def for_every_pod(
    ctx: PhaseContext,
    pods: Iterable[str],
    work: Callable[[str], T],
    failing: str,
    *,
    limit: int = 0,
) -> dict[str, T]:
    """Call `work` for all pods, at most `limit` at a time. Raises after all calls have ended."""

    def prefixed_work(pod: str) -> T:
        with prefixed(failing):
            return work(pod)

    calls = call_at_once(ctx, pods, prefixed_work, limit)
    errors = [call.error for call in calls if call.error is not None]
    for error in errors:
        if not isinstance(error, KanisterError) or len(errors) == 1:
            raise error
    if errors:
        codes = (error.exit_code for error in errors if isinstance(error, CommandFailed))
        raise CommandFailed("\n".join(map(str, errors)), next(codes, None)) from errors[0]
    return {call.of: call.result for call in calls}
