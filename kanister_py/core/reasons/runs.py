"""Reasons of documents, runs, phases, stores and schedules."""

from __future__ import annotations

from typing import Final

from kanister_py.core.reasons.reason import Reason, ReasonGroup

DOCUMENTS: Final = ReasonGroup(
    "Documents and versions",
    "Errors of `lint`, `plan`, `run` and admission. The message names file, line and path.",
    (
        Reason(
            "InvalidDocument",
            "A file or object does not have the form of its kind.",
            "Correct the named fields. `kanister-py schema show KIND` prints the schema.",
        ),
        Reason(
            "FileUnreadable",
            "A file or folder cannot be read, or the folder has no files of the expected kind.",
            "Check its path and permissions.",
        ),
        Reason(
            "UsageError",
            "The input is wrong in a way that has no reason of its own.",
            "Follow the message.",
        ),
        Reason("Unusable", "A given value cannot be used.", "Follow the message."),
        Reason(
            "InvalidVersion",
            "A version is not of the form `vMAJOR.MINOR.PATCH`, or a range cannot be parsed.",
            "Write versions such as `v0.1.0` and ranges such as `>=0.1.0 <0.3.0`.",
        ),
        Reason(
            "InvalidDuration",
            "A duration cannot be parsed.",
            "Write durations as in Go: `90s`, `5m`, `1h30m`.",
        ),
        Reason(
            "InvalidQuantity",
            "A quantity cannot be parsed.",
            "Write quantities as in Kubernetes: `500m`, `64Mi`, `2Gi`.",
        ),
        Reason(
            "InvalidSelector",
            "A label or field selector cannot be parsed.",
            "Write selectors as for `kubectl -l`: `app=db,tier!=test`.",
        ),
        Reason(
            "InvalidJSONPath",
            "A JSONPath expression cannot be parsed or applied.",
            "Try the expression with `kubectl get -o jsonpath=`.",
        ),
        Reason(
            "InvalidArgs",
            "The arguments of a phase do not fit its function version.",
            "`kanister-py functions describe NAME` lists arguments and types.",
        ),
        Reason(
            "InvalidArguments",
            "The types of the arguments are right, but a value or a combination of values is not.",
            "Follow the message; `kanister-py functions describe NAME` explains each argument.",
        ),
        Reason(
            "InvalidReference",
            "A name, namespace or API version in a reference breaks the rules of Kubernetes.",
            "Correct the reference.",
        ),
        Reason(
            "InvalidObjectReference",
            "A reference to an object has an unknown kind and lacks `apiVersion` or `resource`.",
            "Correct the kind, or add these fields.",
        ),
        Reason(
            "InvalidProfile",
            "A Profile, or the Secret it refers to, does not describe a usable location.",
            "`kanister-py profile validate` tests a Profile.",
        ),
        Reason(
            "FunctionNotRegistered",
            "No function of this name is registered.",
            "Correct the name, or install the plugin that provides it. "
            "`kanister-py functions list` shows all.",
        ),
        Reason(
            "FunctionVersionNotFound",
            "No registered version satisfies the requested version or range.",
            "Choose one of the versions in the message.",
        ),
        Reason(
            "FunctionVersionRemoved",
            "The requested version was removed after its deprecation window.",
            "`kanister-py upgrade` changes the file to the replacement, if there is one.",
        ),
        Reason(
            "FunctionVersionDeprecated",
            "The version works and will be removed in the named release.",
            "`kanister-py upgrade` changes the file to the replacement.",
        ),
        Reason(
            "FunctionVersionFallback",
            "The requested version does not exist, so v0.0.0 runs, as in Kanister.",
            "Choose a version in the message. `--strict-versions` makes this an error.",
        ),
        Reason(
            "FunctionOfAnotherKind",
            "A blueprint calls a composition function, or a composition a blueprint function.",
            "`kanister-py functions list` shows which kind a function has.",
        ),
        Reason(
            "OptionInvalid",
            "A required option is missing, or an option does not match its declaration.",
            "`kanister-py plan` lists the options of an action with their types and defaults.",
        ),
        Reason(
            "NotChecked",
            "An object does not exist yet, but an earlier phase or action may create it.",
        ),
        Reason(
            "InputMissing",
            "The ActionSet lacks a Secret, ConfigMap, artifact or Profile that its action uses.",
            "Add it to the action of the ActionSet.",
        ),
        Reason(
            "OptionUnused",
            "An option was given that no template of the action reads.",
            "Correct the name of the option, or leave it out.",
        ),
        Reason(
            "RegistrationRefused",
            "A plugin registers a function twice, or in a form that cannot work.",
            "Fix or remove the plugin.",
        ),
        Reason(
            "CatalogueMismatch",
            "`versions.yaml` and the registered code disagree about a function.",
            "Authors of functions: add the version to `versions.yaml`, or the code for it.",
        ),
        Reason(
            "PluginBroken",
            "A plugin cannot be imported.",
            "Fix or uninstall the named package.",
        ),
        Reason(
            "UnknownTemplateEngine",
            "A blueprint selects a template language that does not exist.",
            "Use `go` or `jinja2`.",
        ),
        Reason(
            "RenderFailed",
            "A template cannot be rendered, for example because it reads a missing value.",
            "Follow the message; [Template values](templates.md) lists all values.",
        ),
        Reason(
            "TemplateParseError",
            "A template has a syntax error or calls an unknown function.",
            "Correct it at the line in the message.",
        ),
    ),
)

RUNS: Final = ReasonGroup(
    "Runs and ActionSets",
    "Errors of a run as a whole, in `status.error`, events and the summary of `kanister-py run`.",
    (
        Reason(
            "ActionNotFound",
            "The Blueprint has no such action.",
            "Correct the name of the action; the message lists the actions.",
        ),
        Reason(
            "BlueprintNotFound",
            "The Blueprint is neither in the namespace of the ActionSet nor in a file of `-f`.",
            "Create it, correct its name, or add its file.",
        ),
        Reason(
            "BlueprintChanged",
            "The Blueprint has other phases than when the run began, so the run cannot resume.",
            "Restore the Blueprint, or create a new ActionSet.",
        ),
        Reason(
            "ActionSetIncomplete",
            "The ActionSet is not complete, so it has no artifacts for another action.",
            "Wait for its end, or choose another one.",
        ),
        Reason("ActionSetGone", "The ActionSet was deleted while it was watched."),
        Reason(
            "ActionSetNotFit",
            "A new ActionSet or Schedule names a Blueprint, object or input that does not exist.",
            "Correct the names in the message, or use `--skip-validation`.",
        ),
        Reason(
            "ActionSetState",
            "The state of the ActionSet does not allow the request.",
            "`kanister-py actionset get` shows the state.",
        ),
        Reason(
            "ActionSetUnclear",
            "The flags do not say which action to run on which object.",
            "Add the flag that the message names.",
        ),
        Reason(
            "StatusUnreadable",
            "The status of an ActionSet was written by something else.",
            "Create the ActionSet again, without a status.",
        ),
        Reason(
            "StatusTooLarge",
            "The status of the ActionSet exceeds the size limit of the API server.",
            "Split the ActionSet, or make its outputs and artifacts smaller.",
        ),
        Reason(
            "StatusRefused",
            "The API server refuses the status of the ActionSet.",
            "The message has the cause; `kanister-py crds upgrade` updates an old definition.",
        ),
        Reason(
            "ObjectNotFetched",
            "The object that the action works on cannot be read.",
            "Check its name, and whether it still exists.",
        ),
        Reason(
            "ObjectMissing",
            "A named object, or an object in a store, does not exist.",
            "Check its name and namespace or path.",
        ),
        Reason(
            "Forbidden",
            "The API server denies the request.",
            "Grant the named verb; `kanister-py rbac` prints the needed Roles.",
        ),
        Reason("PhaseNameTwice", "Two phases of an action have the same name.", "Rename one."),
        Reason(
            "ArtifactUnreadable",
            "The chosen version cannot read an artifact that another version has written.",
            "Use one of the versions in the message.",
        ),
        Reason(
            "NoArtifacts",
            "The run has no artifacts because it did not complete.",
            "Choose a completed run.",
        ),
        Reason(
            "ArtifactsTooLarge",
            "All artifacts together exceed the size limit of a status.",
            "Store the data elsewhere and make its location the artifact.",
        ),
        Reason(
            "OutputTooLarge",
            "The outputs of a phase or of all phases exceed the size limit.",
            "Store the data elsewhere and make its location the output.",
        ),
        Reason(
            "OutputUnreadable",
            "A line of output marked as a key-value pair cannot be parsed.",
            "Write outputs with `kando output KEY VALUE`.",
        ),
        Reason(
            "FunctionFailed",
            "The function raised an error or returned something other than outputs.",
            "The message has the error of the function.",
        ),
        Reason(
            "PhaseTimedOut",
            "The phase exceeded its `timeout`.",
            "Raise the timeout, or find out why the phase takes longer.",
        ),
        Reason(
            "RunTimedOut",
            "The run exceeded its timeout.",
            "Raise the timeout, or find out which phase takes longer.",
        ),
        Reason(
            "WaitTimedOut",
            "A condition that the phase waits for did not become true in time.",
            "Check the object in the message.",
        ),
        Reason("Cancelled", "The run was cancelled on request."),
        Reason("Cancelling", "The run was asked to stop; its phases are being stopped."),
        Reason(
            "CancelNotKept",
            "The ActionSet definition of this cluster has no field `spec.cancel`.",
            "Delete the ActionSet, or run `kanister-py crds upgrade`.",
        ),
        Reason(
            "Interrupted",
            "The process that ran the phase died, and the phase may be half done.",
            "Check the effect; add `retry: {on: [Interrupted]}` to phases that may run twice.",
        ),
        Reason(
            "RunSuspended",
            "`spec.suspend` is set, and nothing can clear it during a local run.",
            "Set it to false, or create the ActionSet on a cluster.",
        ),
        Reason("NothingToRun", "The ActionSet has no action that would run.", "Add an action."),
        Reason(
            "NothingToRetry",
            "The run did not fail, or cannot start again at that phase.",
            "Choose another phase, or start a new run.",
        ),
        Reason(
            "ImpersonationDisabled",
            "The ActionSet names a ServiceAccount, and impersonation is off.",
            "Start the controller with `--impersonate-service-accounts`.",
        ),
        Reason(
            "ReferenceNotGranted",
            "The run names an object of another namespace without a ReferenceGrant there.",
            "Ask the owner of that namespace for a ReferenceGrant.",
        ),
        Reason(
            "ControllerPositionNotLent",
            "The run needs network access or credentials of the controller itself.",
            "Set the flag in the message, or use a pod and a Secret of the namespace.",
        ),
        Reason(
            "PrivilegesRaised",
            "`podOverride` of the ActionSet asks for more privileges than the phase has.",
            "Set them in the Blueprint, or leave them out.",
        ),
        Reason(
            "PodSecurityUnknown",
            "`KANISTER_PY_JOB_POD_SECURITY` or `KANISTER_PY_JOB_POD_USER` has an invalid value.",
            "Set them to `restricted` and to a user ID, or unset them.",
        ),
        Reason("Added", "The controller has read a new Blueprint."),
        Reason(
            "Paused",
            "The controller is paused, so it does not start the ActionSet.",
            "Start the controller without `--paused` (chart: `controller.paused: false`).",
        ),
        Reason("Limit", "An ActionSet waits because a limit of the controller is reached."),
        Reason(
            "ConcurrencyKey",
            "An ActionSet waits for another one with the same `kanister-py.io/concurrency-key`.",
        ),
        Reason(
            "AccessMissing",
            "An ActionSet waits because the controller may not read its Blueprint.",
            "Grant the permission in the message, such as the chart's Roles after a namespace was "
            "created again.",
        ),
        Reason(
            "CommandFailed",
            "A command in a container ended with a non-zero exit code.",
            "The log of the phase has the output of the command.",
        ),
        Reason(
            "PodFailed",
            "The pod of a phase failed before its command ended.",
            "The message has the reason of the container or of the kubelet.",
        ),
        Reason("PodGone", "The pod of a phase was deleted while it ran.", "Retry the run."),
        Reason(
            "PodNotReady",
            "The pod of a phase cannot start, or did not start in time.",
            "Check image, resources and volumes with `kubectl describe pod`.",
        ),
        Reason(
            "StreamLost",
            "The connection for logs or for a command broke.",
            "Add `retry: {on: [StreamLost]}` to phases that may run twice.",
        ),
        Reason(
            "NotOnVolume",
            "The restore would write to a folder that is on no mounted volume.",
            "Mount the volume at the path in the message, or change `restorePath`.",
        ),
        Reason(
            "VolumesNotFound",
            "The pod or folder has no volume that the function can use.",
            "Name the volumes in the arguments of the phase.",
        ),
        Reason(
            "WorkloadNotKnown",
            "The function needs a workload, and neither arguments nor the object name one.",
            "Add the arguments `namespace`, `kind` and `name`.",
        ),
        Reason(
            "WorkloadNotSupported",
            "The function does not support workloads of this kind.",
            "The message lists the supported kinds.",
        ),
        Reason(
            "IncompleteOperation",
            "`KubeOps` lacks an argument that its operation needs.",
            "Add the argument.",
        ),
        Reason("InvalidOperation", "`KubeOps` has no such operation.", "Use one in the message."),
        Reason(
            "InvalidManifest",
            "The manifest in `KubeOps` is not a valid object.",
            "Correct the field in the message.",
        ),
        Reason(
            "InvalidRequest",
            "The HTTP request cannot be sent, or its destination is not allowed.",
            "Correct URL, headers or body.",
        ),
        Reason(
            "RequestFailed",
            "The HTTP request got no complete response.",
            "Check the address and the network; `retry` repeats the phase.",
        ),
        Reason(
            "RequestInDoubt",
            "A POST or PATCH may have been carried out, and is not sent again.",
            "Check whether it was, or send a header `Idempotency-Key`.",
        ),
        Reason(
            "UnexpectedStatus",
            "The response has a status that the phase does not accept.",
            "Check the service, or set the accepted statuses.",
        ),
        Reason(
            "OutputNotInResponse",
            "The response lacks a field that an output reads.",
            "Correct the path of the output.",
        ),
        Reason("ResponseTooLarge", "The response exceeds the size limit.", "Ask for less data."),
        Reason(
            "NoticeRefused",
            "The receiver rejected a failure notice, which is not sent again.",
            "The message has the HTTP status; check the receiver and its `key`.",
        ),
        Reason(
            "NoticeReceiverMissing",
            "The Secret of the receiver of failure notices does not exist.",
            "Create it.",
        ),
        Reason(
            "NoticeReceiverInvalid",
            "The Secret of the receiver lacks `url` or `key`, or `key` is empty.",
            "Add both.",
        ),
        Reason(
            "NoticeReceiverRefused",
            "The controller may not send notices to this origin.",
            "Start the controller with `--notify ORIGIN`.",
        ),
        Reason(
            "NoticeNotDelivered",
            "The receiver cannot be reached; the notice is sent again.",
            "Check the receiver and the network.",
        ),
    ),
)

STORES: Final = ReasonGroup(
    "Backups, stores and snapshots",
    "Errors of data functions, `kando`, and the commands `location`, `profile` and `restore`.",
    (
        Reason(
            "StoreUnavailable",
            "The object store did not respond, or not completely; the request is retried.",
            "Check the endpoint and the network.",
        ),
        Reason(
            "StoreRefused",
            "The object store denies the request.",
            "The message has its response: credentials, bucket policy or region.",
        ),
        Reason(
            "StoreNotUsable",
            "The store of the Profile cannot be used by a local run.",
            "`--locations DIR` uses a folder instead.",
        ),
        Reason(
            "BucketNotFound",
            "The bucket or folder does not exist.",
            "Create it, or correct the Profile.",
        ),
        Reason(
            "CredentialRefused",
            "The store does not accept the credentials.",
            "Renew the Secret of the Profile.",
        ),
        Reason(
            "ObjectDamaged",
            "The data of an object does not match its checksum.",
            "Upload it again, or restore from another backup.",
        ),
        Reason("TooLarge", "The upload exceeds a limit of the store.", "Split the data."),
        Reason(
            "NoBackup",
            "There is no backup to restore, or none of a pod.",
            "`kanister-py restore NAME --list` lists the backups of a Schedule.",
        ),
        Reason(
            "RestoreUnclear",
            "The name is ambiguous or unknown, or the Blueprint cannot restore the backup.",
            "Follow the message.",
        ),
        Reason(
            "RestoreIncomplete",
            "restic restored and verified fewer files than the backup holds.",
            "Do not use the restored data; look at the log of the phase.",
        ),
        Reason(
            "SnapshotNotFound",
            "The repository has no snapshot with this ID or tag.",
            "Check the ID; the snapshot may have been pruned.",
        ),
        Reason(
            "SnapshotFailed",
            "The CSI driver reports an error for a VolumeSnapshot.",
            "The message has the error of the driver.",
        ),
        Reason(
            "AmbiguousBackup",
            "The prefix of a backup ID matches several backups.",
            "Use more digits.",
        ),
        Reason(
            "BackupUnreadable",
            "restic did not print the ID of the new snapshot.",
            "Look at the log of the phase.",
        ),
        Reason(
            "BackupInfoUnreadable",
            "`backupInfo` is not the output of `BackupDataAll`.",
            "Pass the output unchanged.",
        ),
        Reason(
            "StatsUnreadable",
            "restic printed statistics that cannot be parsed.",
            "Check the version of restic in the image.",
        ),
        Reason("NoDatabase", "The RDS instance or cluster does not exist.", "Correct its name."),
        Reason("NoSnapshot", "The RDS snapshot does not exist.", "Correct its name."),
        Reason("RdsFailed", "RDS reports a failed state.", "Look at the events of RDS."),
        Reason(
            "AwsUnreachable",
            "AWS did not respond.",
            "Check the network; `retry` repeats the phase.",
        ),
        Reason(
            "AwsRefused",
            "AWS returned an error without a code; otherwise the reason is the code of AWS.",
            "The message has the response of AWS.",
        ),
        Reason(
            "ExtraMissing",
            "The function needs an optional package.",
            "Install the extra that the message names.",
        ),
        Reason(
            "SecretNotFound",
            "The Secret with credentials is in neither `objects` of the phase nor the ActionSet.",
            "Add it to `objects` of the phase or `secrets` of the ActionSet.",
        ),
    ),
)

SCHEDULES: Final = ReasonGroup(
    "Schedules",
    "Conditions `Ready`, `Suspended` and `Retention` of a Schedule, and its events.",
    (
        Reason("Scheduled", "The Schedule is valid and will run."),
        Reason("AsSaid", "The condition is as `spec` requests."),
        Reason(
            "InvalidTimetable",
            "The cron line, interval or time zone is invalid or never matches.",
            "`kanister-py schedule next --cron LINE` tries it.",
        ),
        Reason(
            "LastRunFailed",
            "The last run failed.",
            "`kanister-py schedule describe` names the run and its reason.",
        ),
        Reason(
            "Suspended", "The Schedule is suspended.", "`kanister-py schedule resume` ends this."
        ),
        Reason(
            "Missed",
            "A run was not started because it was late by more than `startingDeadline`.",
            "Check whether the controller was running at that time.",
        ),
        Reason(
            "StillRunning",
            "A run was skipped because the last one had not ended (`concurrencyPolicy: Forbid`).",
            "Lengthen the interval, or choose `Queue` or `Replace`.",
        ),
        Reason(
            "Replaced", "The previous run was cancelled because `concurrencyPolicy` is `Replace`."
        ),
        Reason("Started", "The Schedule has created an ActionSet."),
        Reason("Deleted", "Retention has deleted an old backup."),
        Reason(
            "DeleteFailed",
            "Retention cannot delete an old backup.",
            "The message has the ActionSet that failed.",
        ),
        Reason(
            "RunUnderWay",
            "A run is in progress, and the Schedule forbids a second one.",
            "Wait, cancel it, or use `--force`.",
        ),
    ),
)
