"""Repositories of restic from v0.1.0 on: a required, hidden key and one backup per run.

Restic gets the key and the credential of the object store through the stdin of a shell, so
that they appear in no command line, no pod and no log. A backup is tagged with the key of its
run, without the attempt, so that it is found after a restart or at the next attempt.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, ClassVar, Final, NamedTuple, Self

from pydantic import ConfigDict, Field, model_validator

from kanister_py.core.actionsets.outputs import LogTail
from kanister_py.core.actionsets.status import Moved, total_of
from kanister_py.core.errors import ApiError, CommandFailed, NotFound, StreamLost, UsageError
from kanister_py.core.kube.locations import StoreKind
from kanister_py.core.kube.quantities import in_units
from kanister_py.core.kube.resources import PODS
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.claims import spec_with_claims
from kanister_py.functions.blueprint.commands import Target, command_lost
from kanister_py.functions.blueprint.pods import Job, PodArgs, pod_exists, pod_of, running, spec_of
from kanister_py.functions.blueprint.repositories import (
    HELPER_ANNOTATIONS,
    IDLE_COMMAND,
    Place,
    prefixed,
    tools_image,
)
from kanister_py.functions.blueprint.restic import (
    WRONG_PASSWORD,
    check_snapshot_id,
    environment,
    ignores_unreadable_snapshot,
    is_missing,
    read_complaint,
)
from kanister_py.ports.cluster import Channel
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args

HELPER_PREFIX: Final = "kanister-restic-"
# Reads the environment up to an empty line, then executes restic. Not every API server can
# signal the end of stdin to a command.
_SHELL: Final = (
    'while IFS= read -r line && [ -n "$line" ]; do export "$line"; done; '
    'if [ -n "$GOOGLE_APPLICATION_CREDENTIALS" ]; then umask 077; '
    'printf %s "$ACCOUNT" | base64 -d >"$GOOGLE_APPLICATION_CREDENTIALS"; unset ACCOUNT; fi; '
    'exec restic "$@"'
)
_LOCKED: Final = "already locked"
_LONG_COMMANDS: Final = ("backup", "restore", "check", "prune", "stats")
_TRANSIENT: Final = (
    "connection refused",
    "connection reset",
    "i/o timeout",
    "TLS handshake timeout",
    "unexpected EOF",
    "Service Unavailable",
    "SlowDown",
    "reduce your request rate",
    "Internal Server Error",
    "InternalError",
    "Bad Gateway",
    "server misbehaving",
)
_TRIES: Final = 3
_COMPLAINT_LINES: Final = 200
_INCOMPLETE: Final = 3
"""Restic's exit code for a backup without the files that could not be read."""
_FIRST_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_LOCK_SECONDS: Final = 30 * 60.0
_GONE_SECONDS: Final = 120.0


class Keep(Args):
    """Retention policy: the backups that `restic forget` keeps."""

    # A misspelt count could keep all backups, or delete backups that should be kept.
    model_config = ConfigDict(strict=True)

    last: int = Field(default=0, ge=0, description="The number of most recent backups to keep.")
    daily: int = Field(
        default=0, ge=0, description="The number of days whose most recent backup is kept."
    )
    weekly: int = Field(
        default=0, ge=0, description="The number of weeks whose most recent backup is kept."
    )
    monthly: int = Field(
        default=0, ge=0, description="The number of months whose most recent backup is kept."
    )

    def flags(self) -> list[str]:
        """Return the policy as flags of `restic forget`."""
        counts = {name: getattr(self, name) for name in type(self).model_fields}
        return [f"--keep-{name}={count}" for name, count in counts.items() if count]


class KeyedArgs(PodArgs):
    """Arguments of functions that use a repository of restic, from v0.1.0 on."""

    needs_repository: ClassVar = True

    encryption_key: str = Field(
        min_length=1,
        description="The encryption key of the repository, from a Secret: `{{ index "
        ".Phases.<phase>.Secrets.<name>.Data `key` | toString }}`.",
    )
    insecure_tls: bool = Field(
        default=False,
        alias="insecureTLS",
        description="Whether to skip the verification of the object store's certificate.",
    )
    image: str = Field(
        default="",
        description="The image of the pod, which must contain sh and restic. By default, the "
        "image in the environment variable `KANISTER_TOOLS`, or Kanister's tools image.",
    )


class RetentionArgs(KeyedArgs):
    """Arguments of backups with a retention policy."""

    keep: Keep | None = Field(
        default=None,
        description="Which backups of the same folder and volumes to keep once this backup is "
        "complete: the numbers of `last`, `daily`, `weekly` and `monthly` backups. By default, "
        "all backups are kept.",
    )
    prune: bool = Field(
        default=False,
        description="Whether to reclaim the space of the backups that `keep` removes. Pruning "
        "takes time and locks the repository.",
    )

    @model_validator(mode="after")
    def _check_prune(self) -> Self:
        if self.prune and not (self.keep and self.keep.flags()):
            raise ValueError("prune gives back the space of what keep lets go: name keep, too")
        return self


class SavedSnapshot(NamedTuple):
    """Complete snapshot in a repository."""

    id: str
    tag: str
    file_count: int
    size_bytes: int
    added_bytes: int

    def as_outputs(self) -> dict[str, str]:
        return {
            "backupID": self.id,
            "backupTag": self.tag,
            "fileCount": str(self.file_count),
            "size": in_units(self.size_bytes),
            "phySize": in_units(self.added_bytes),
            "version": "v0.1.0",
        }


def run_tag(ctx: PhaseContext, part: str = "") -> str:
    """Return the tag of this phase's backup in this run, which is the same for all attempts."""
    return ctx.run.key(f"backup {part}", attempt=0)


@dataclass(frozen=True, slots=True)
class HelperPod:
    """Pod to run restic in. `part` distinguishes the pods of one phase."""

    namespace: str
    claims: Mapping[str, str] = field(default_factory=dict)
    is_read_only: bool = False
    node: str = ""
    part: str = ""


@contextmanager
def repository_in_pod(
    ctx: PhaseContext,
    params: Params,
    function: str,
    args: KeyedArgs,
    place: Place,
    helper: HelperPod,
) -> Iterator[KeyedRepository]:
    """Run an idle pod for the duration of the block; earlier pods of this phase are deleted.

    The commands in the earlier pods have then ended, and their locks are stale.
    """
    spec = spec_of(tools_image(args.image), IDLE_COMMAND)
    if helper.claims:
        spec = spec_with_claims(ctx, helper.namespace, helper.claims, spec)
        for mount in spec["containers"][0]["volumeMounts"] if helper.is_read_only else ():
            mount["readOnly"] = True
    if helper.node:
        spec["nodeName"] = helper.node
    override, part = params.facts.pod_override, helper.part
    job = Job(HELPER_PREFIX, helper.namespace, spec, args, override, HELPER_ANNOTATIONS, part)
    pod = pod_of(ctx, params, job)
    last = ctx.run.attempt if ctx.is_resumed else ctx.run.attempt - 1
    for attempt in range(1, last + 1):
        name = HELPER_PREFIX + ctx.run.key(part, attempt=attempt)
        _remove(ctx, name, pod["metadata"]["namespace"])
    with running(ctx, function, pod, is_repeatable=True) as followed:
        followed.wait_until_ready(fails_early=True)
        target = Target(followed.namespace, followed.name, followed.main_container)
        yield KeyedRepository(ctx, place, args, target)


def _remove(ctx: PhaseContext, name: str, namespace: str) -> None:
    """Delete a pod, and wait until it is gone."""
    try:
        ctx.cluster.delete(PODS, name, namespace=namespace, grace_period_seconds=0)
    except NotFound:
        return
    ctx.wait(
        lambda: not pod_exists(ctx, name, namespace),
        timeout_seconds=_GONE_SECONDS,
        what=f"pod {namespace}/{name} to be gone",
    )


class Progress:
    """Progress of all backups of a phase, across their repositories."""

    def __init__(self, ctx: PhaseContext) -> None:
        self._ctx = ctx
        self._parts: dict[str, Moved] = {}
        self._lock = Lock()

    def report(self, repository: str, moved: Moved) -> None:
        """Report the data transferred to one repository so far."""
        with self._lock:
            self._parts[repository] = moved
            total = total_of(self._parts.values())
            self._ctx.progress(100 * total.done_bytes // max(1, total.all_bytes), total)


def _is_transient(error: CommandFailed) -> bool:
    # An incomplete snapshot has been saved; a retry would only save another one.
    is_saved = error.exit_code == _INCOMPLETE
    return not is_saved and any(sign in error.message for sign in _TRANSIENT)


def _count(summary: Mapping[str, Any], name: str) -> int:
    return int(summary.get(name) or 0)


@dataclass(frozen=True, slots=True)
class KeyedRepository:
    """Repository of restic, accessed through commands in a helper pod."""

    ctx: PhaseContext
    place: Place
    args: KeyedArgs
    target: Target

    def at(self, place: Place) -> Self:
        """Return another repository that is accessed through the same pod."""
        return replace(self, place=place)

    # Operations

    def create_if_missing(self) -> None:
        """Create the repository if there is none; any other problem is an error."""
        try:
            self.run("cat", "config")
        except CommandFailed as error:
            if not is_missing(error.message):
                raise
            try:
                self.run("init")
            except CommandFailed as failed:
                # Another client created it at the same time, for example for another pod.
                if "already" not in failed.message:
                    raise

    def backup(self, folder: str, tag: str, host: str, progress: Progress) -> SavedSnapshot:
        """Back up a folder, unless this run has already done so."""
        with prefixed("Failed to create object store backup location"):
            self.create_if_missing()
        with prefixed("Failed to create and upload backup"):
            snapshots = self.snapshots("--tag", tag)
            if snapshots:
                self.ctx.log(f"Snapshot {snapshots[0]['short_id']} of this run already exists")
                return self._measured(snapshots[0], tag)
            summary: dict[str, Any] = {}
            words = ("backup", "--json", "--tag", tag, "--host", host, folder)
            try:
                self.run(*words, on_line=lambda line: self._follow(line, summary, progress))
            except CommandFailed:
                if summary:
                    # The snapshot lacks the unreadable files, so it must not remain as a backup.
                    self.forget([str(summary["snapshot_id"])])
                raise
            if not summary:
                raise UsageError(
                    "restic did not print the ID of the new snapshot", reason="BackupUnreadable"
                )
        return SavedSnapshot(
            str(summary["snapshot_id"])[:8],
            tag,
            int(summary["total_files_processed"]),
            int(summary["total_bytes_processed"]),
            int(summary["data_added"]),
        )

    def _follow(self, line: bytes, summary: dict[str, Any], progress: Progress) -> None:
        """Process a line of output: a progress report, or the summary at the end."""
        try:
            event = json.loads(line)
        except ValueError:
            self.ctx.log(line.decode("utf-8", "replace"))
            return
        if event.get("message_type") == "summary":
            summary.update(event)
            size, files = (_count(event, f"total_{name}_processed") for name in ("bytes", "files"))
            progress.report(self.place.path, Moved(size, size, files, files))
        elif event.get("message_type") == "status":
            names = ("bytes_done", "total_bytes", "files_done", "total_files")
            progress.report(self.place.path, Moved(*(_count(event, name) for name in names)))

    def _measured(self, snapshot: Mapping[str, Any], tag: str) -> SavedSnapshot:
        """Measure a snapshot that another process saved."""
        count, size = 0, 0

        def read(line: bytes) -> None:
            nonlocal count, size
            node = json.loads(line)
            if node.get("type") == "file":
                count, size = count + 1, size + int(node.get("size") or 0)

        self.run("ls", "--json", str(snapshot["id"]), on_line=read)
        return SavedSnapshot(str(snapshot["short_id"]), tag, count, size, 0)

    def apply_retention(self, keep: Keep | None, host: str, *, prune: bool) -> None:
        """Forget the backups of a host that the retention policy does not keep."""
        if keep is None or not keep.flags():
            return
        words = ["forget", "--host", host, "--group-by", "host,paths", *keep.flags()]
        with prefixed("Failed to forget data"):
            self.run(*words, *(["--prune"] if prune else []))

    def snapshots(self, *filters: str) -> list[Any]:
        """List snapshots, oldest first."""
        return json.loads(self.run("snapshots", "--json", *filters)) or []

    def visit(self, snapshot: str, take: Callable[[str, str], None]) -> None:
        """Call `take` with the path and type of every file and folder in a snapshot."""

        def read(line: bytes) -> None:
            node = json.loads(line)
            if "path" in node and "type" in node:
                take(node["path"], node["type"])

        self.run("ls", "--json", snapshot, on_line=read)

    def forget(self, snapshots: Sequence[str]) -> None:
        """Forget the snapshots with these IDs. A missing snapshot is not an error.

        An ID may be shortened to eight or more digits if these identify one snapshot.
        """
        for snapshot in snapshots:
            check_snapshot_id(snapshot)
        snapshot_ids = [str(snapshot["id"]) for snapshot in self.snapshots()]
        names = []
        for snapshot in snapshots:
            matches = [name for name in snapshot_ids if name.startswith(snapshot)]
            if len(matches) > 1:
                raise UsageError(
                    f"Backup ID {snapshot} names {len(matches)} backups; give more of its digits",
                    reason="AmbiguousBackup",
                )
            names += matches
        if names:
            self.run("forget", *names)

    def prune(self) -> int:
        """Delete unreferenced data, and return the number of reclaimed bytes."""
        before = self._stored_bytes()
        self.run("prune")
        return max(0, before - self._stored_bytes())

    def _stored_bytes(self) -> int:
        store = self.ctx.stores.open(self.place.location)
        return sum(obj.size for obj in store.list(f"{self._key}/"))

    @property
    def _key(self) -> str:
        """Return the path of the repository inside the bucket."""
        return self.place.path.removeprefix(f"{self.place.location.bucket}/")

    # Execution

    def run(self, *words: str, on_line: Callable[[bytes], None] | None = None) -> str:
        """Run restic to its end and return its output, unless `on_line` reads it line by line.

        Transient errors of the object store are retried. Locks of pods that no longer exist are
        removed, and other locks are waited for.
        """
        if words[0] in _LONG_COMMANDS and (self.ctx.run.attempt > 1 or self.ctx.is_resumed):
            # Read locks do not conflict with each other, so nothing else removes stale ones.
            self._remove_stale_locks()
        pause, tries = _FIRST_PAUSE_SECONDS, 0
        until = self.ctx.now().timestamp() + _LOCK_SECONDS
        while True:
            try:
                return self._run_once(words, on_line)
            except CommandFailed as error:
                if _LOCKED in error.message:
                    if self.ctx.now().timestamp() > until:
                        raise
                    if self._remove_stale_locks():
                        continue
                    self.ctx.log(f"The repository is locked; retrying in {pause:g}s")
                elif _is_transient(error) and tries < _TRIES:
                    tries += 1
                    self.ctx.log(f"The store fails; retrying in {pause:g}s")
                else:
                    raise
            self.ctx.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _remove_stale_locks(self) -> bool:
        """Remove the locks of our pods that no longer exist. Returns True if there were any."""
        listed = self._run_once(("list", "locks", "--no-lock", "--quiet"), None).split()
        dead = [lock for lock in listed if self._is_stale(lock)]
        keys = [f"{self._key}/locks/{lock}" for lock in dead]
        if keys:
            self.ctx.stores.open(self.place.location).delete(keys)
            self.ctx.log(f"Removed {len(keys)} locks of deleted pods")
        self._run_once(("unlock", "--quiet"), None)
        return bool(keys)

    def _is_stale(self, lock: str) -> bool:
        try:
            described = json.loads(
                self._run_once(("cat", "lock", lock, "--no-lock", "--quiet"), None)
            )
        except (CommandFailed, ValueError):
            # Deleted in the meantime.
            return False
        host = str(described.get("hostname", ""))
        if not host.startswith(HELPER_PREFIX):
            return False
        if host == self.target.pod:
            # From an earlier pod of this name: the current pod runs one command at a time.
            return True
        try:
            self.ctx.cluster.get(PODS, host, namespace=self.target.namespace)
        except NotFound:
            return True
        return False

    def _stdin(self) -> bytes:
        location, key = self.place.location, self.args.encryption_key
        credential = location.credential
        for secret in (key, credential.secret, credential.token):
            self.ctx.conceal(secret)
        exported = environment(*self.place, key)
        exported["RESTIC_PROGRESS_FPS"] = "1"
        if location.kind is StoreKind.GCS:
            exported["ACCOUNT"] = b64encode(credential.secret.encode()).decode()
        for name, value in exported.items():
            if "\n" in value:
                raise UsageError(f"{name} holds more than one line", reason="InvalidArguments")
        text = "".join(f"{name}={value}\n" for name, value in exported.items())
        return f"{text}\n".encode("utf-8", "surrogateescape")

    def _run_once(self, words: Sequence[str], on_line: Callable[[bytes], None] | None) -> str:
        flags = ["--insecure-tls"] if self.args.insecure_tls else []
        command = ["sh", "-c", _SHELL, "restic", *words, *flags]
        target, output, complained = self.target, bytearray(), LogTail(lines=_COMPLAINT_LINES)
        held = b""
        with ExitStack() as stack:
            try:
                session = stack.enter_context(
                    self.ctx.cluster.exec(
                        target.pod,
                        command,
                        namespace=target.namespace,
                        container=target.container,
                        has_stdin=True,
                    )
                )
            except ApiError as error:
                raise UsageError(
                    f"Failed to exec command in pod: {error.message}", reason=error.reason
                ) from error
            stack.enter_context(self.ctx.on_cancel(session.close))
            stack.enter_context(self.ctx.idle())
            try:
                session.write_stdin(self._stdin())
                session.close_stdin()
                for chunk in session:
                    if chunk.channel is Channel.STDERR:
                        complained.feed(chunk.data)
                    elif on_line is None:
                        output += chunk.data
                    else:
                        *lines, held = (held + chunk.data).split(b"\n")
                        for line in lines:
                            on_line(line)
            except StreamLost as error:
                raise command_lost(target) from error
            code = session.exit_code
        self.ctx.check_cancelled()
        if code is None:
            raise command_lost(target)
        complaint = read_complaint(complained.lines())
        if code != 0 or ignores_unreadable_snapshot(complaint):
            raise self._failure(words, complaint, code)
        return output.decode("utf-8", "replace")

    def _failure(self, words: Sequence[str], complaint: str, code: int) -> CommandFailed:
        if WRONG_PASSWORD in complaint:
            return CommandFailed(f"The key does not open the repository {self.place.path}", code)
        ended = f"ended with exit code {code}" if code else "left out what it could not read"
        message = f"restic {words[0]} {ended}, in the repository {self.place.path}: {complaint}"
        return CommandFailed(message, code)
