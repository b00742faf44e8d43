"""Reasons of the API server, the controller's process, the endpoint and local runs."""

from __future__ import annotations

from typing import Final

from kanister_py.core.reasons.reason import Reason, ReasonGroup

CLUSTER: Final = ReasonGroup(
    "The API server",
    "Errors of the API server. The message comes from the server.",
    (
        Reason("NotFound", "The object does not exist.", "Check its name and namespace."),
        Reason(
            "NoKindMatch",
            "The cluster has no such kind.",
            "Install its definition; ours come with `kanister-py crds install`.",
        ),
        Reason("AlreadyExists", "An object of this name exists.", "Choose another name."),
        Reason(
            "Conflict",
            "The object has changed since it was read, or another field manager owns a field.",
            "Changes are retried; for a field manager, see `FieldManagerConflict`.",
        ),
        Reason(
            "FieldManagerConflict",
            "Cause of `Conflict`: another field manager owns the field.",
            "Remove the field there, or apply with `force`.",
        ),
        Reason("Invalid", "The object breaks rules of its kind.", "Correct the listed fields."),
        Reason("BadRequest", "The API server cannot understand the request.", "See the message."),
        Reason("Unauthorized", "The credentials are missing or expired.", "Log in again."),
        Reason("MethodNotAllowed", "The resource does not support this verb.", "See the message."),
        Reason(
            "UnsupportedMediaType",
            "The resource does not support this type of patch.",
            "Use another type of patch.",
        ),
        Reason("Expired", "The resource version is too old; the list is read again."),
        Reason("TooManyRequests", "The API server limits requests; the request is retried."),
        Reason(
            "ServiceUnavailable",
            "The API server cannot be reached; the request is retried.",
            "Check address, network and certificates.",
        ),
        Reason("InternalError", "The API server or a webhook failed; the request is retried."),
        Reason(
            "Timeout",
            "The API server did not finish in time; the result is unknown.",
            "If it repeats, check the load of the API server.",
        ),
        Reason(
            "RequestEntityTooLarge",
            "The object exceeds the size limit of the API server.",
            "Store the data elsewhere.",
        ),
        Reason("Unknown", "The API server returned an error without a reason.", "See the message."),
        Reason(
            "ClusterConfigInvalid",
            "The kubeconfig or the in-cluster configuration is unusable.",
            "Check `--kubeconfig` and `--context`.",
        ),
        Reason(
            "ServerNotTrusted",
            "The certificate of the server does not belong to the cluster.",
            "Check address and `certificate-authority` in the kubeconfig.",
        ),
        Reason(
            "NamespaceNotFound",
            "The namespace does not exist.",
            "Create it, or choose another one.",
        ),
        Reason(
            "DefinitionNotServed",
            "A definition was installed, but its kind is not served.",
            "Look at the conditions of the definition.",
        ),
        Reason(
            "FieldValueRequired",
            "Cause of `Invalid`: a required field is missing.",
            "Add the field.",
        ),
        Reason("FieldValueInvalid", "Cause of `Invalid`: a value is invalid.", "Correct it."),
        Reason(
            "FieldValueTypeInvalid",
            "Cause of `Invalid`: a value has the wrong type.",
            "Correct it.",
        ),
        Reason(
            "FieldValueNotSupported",
            "Cause of `Invalid`: a value is not one of the allowed values.",
            "Use one in the message.",
        ),
        Reason(
            "FieldValueNotFound",
            "Cause of `Invalid`: a referenced name does not exist.",
            "Correct the name.",
        ),
        Reason(
            "FieldValueForbidden",
            "Cause of `Invalid`: the field must not be set or changed.",
            "Restore or remove it.",
        ),
        Reason(
            "FieldValueDuplicate",
            "Cause of `Invalid`: a key of a list occurs twice.",
            "Remove one of the entries.",
        ),
    ),
)

CONTROLLER: Final = ReasonGroup(
    "The controller and its endpoint",
    "Errors at the start and in the log of the controller, and responses of the endpoint.",
    (
        Reason(
            "LeadershipLost",
            "The Lease may have expired; another replica continues.",
            "If it repeats, check the latency of the API server.",
        ),
        Reason(
            "AnotherController",
            "Another controller works on the same objects.",
            "Follow the message: stop one, or partition the objects.",
        ),
        Reason(
            "RunsUnseen",
            "Runs cannot be listed.",
            "The message has the error of the API server.",
        ),
        Reason(
            "CertificatesUnreadable",
            "Certificates cannot be read or used.",
            "Check the files or the Secret in the message.",
        ),
        Reason(
            "AuthorityUnusable",
            "The Secret of the certificate authority holds a key that does not match.",
            "Correct it, or delete it to get a new one.",
        ),
        Reason(
            "TracingNotInstalled",
            "Tracing needs packages that are not installed.",
            "Install `kanister-py[otel]`.",
        ),
        Reason(
            "TracingMisconfigured",
            "An `OTEL_` variable has an unsupported value.",
            "Choose one of the values in the message.",
        ),
        Reason(
            "AddressUnavailable",
            "The address or port is in use or not allowed.",
            "Choose another `--host` or `--port`.",
        ),
        Reason(
            "Misdirected",
            "The request names a host that the endpoint does not serve.",
            "Use `localhost` or the IP address.",
        ),
        Reason(
            "NotAcceptable",
            "The client accepts none of the offered media types.",
            "Change or omit the header Accept.",
        ),
        Reason(
            "AccessUnknown",
            "The API server cannot check tokens or permissions at the moment.",
            "Try again.",
        ),
        Reason(
            "InvalidLimit",
            "A concurrency limit is not of the form `[NAMESPACE/]BLUEPRINT[:ACTION]=N`.",
            "Correct `--limit`.",
        ),
        Reason(
            "TooManyTokens",
            "Too many tokens of this client were rejected recently.",
            "Wait a minute, and use a valid token.",
        ),
        Reason(
            "RequestHeaderFieldsTooLarge",
            "The headers of the request are too large.",
            "Send fewer or shorter headers.",
        ),
        Reason(
            "URITooLong", "The path of the request is too long.", "Use one of the documented paths."
        ),
        Reason("Fault", "A bug in kanister-py; the log has a traceback.", "Please report it."),
        Reason("TransientError", "A temporary failure; it is retried."),
        Reason("Error", "An error without a reason of its own.", "See the message."),
    ),
)

LAPTOP: Final = ReasonGroup(
    "Local runs and commands",
    "Errors of `kanister-py` on a laptop or in CI.",
    (
        Reason(
            "JournalUnwritable",
            "The journal of a run cannot be written; the run stops.",
            "Free disk space or correct permissions, then use `run --resume`.",
        ),
        Reason(
            "RunNotFound",
            "The state folder does not exist or has no such run.",
            "Correct `--state` or the name of the run.",
        ),
        Reason(
            "StateFolderInUse",
            "Another process uses the state folder.",
            "Wait for it, or choose another `--state`.",
        ),
        Reason(
            "StateFolderUnreadable",
            "The state folder cannot be used.",
            "Check its permissions.",
        ),
        Reason(
            "StateNotReadable",
            "The saved state was written by another release.",
            "Resume with that release, or start a new run.",
        ),
        Reason(
            "PodsNotRun",
            "Pods are only recorded, not run.",
            "Use `--pods processes` or a real cluster.",
        ),
        Reason(
            "ProcessesUnavailable",
            "Processes for pods cannot be started on this machine.",
            "The message has the cause.",
        ),
        Reason(
            "MountsUnavailable",
            "Volumes cannot be mounted on this machine.",
            "Use Linux with user namespaces, or a real cluster.",
        ),
        Reason(
            "VolumeNotSupported",
            "A pod as a process cannot have a volume of this kind.",
            "The message lists the supported kinds.",
        ),
        Reason(
            "VolumesNotKept",
            "The content of volumes was deleted after the run.",
            "`--state DIR` keeps it.",
        ),
        Reason("FailedMount", "A volume of the pod does not exist yet.", "Create its source."),
        Reason(
            "CreateContainerConfigError",
            "A variable of a container refers to something that does not exist.",
            "Create the ConfigMap or Secret.",
        ),
        Reason(
            "WorkloadNotReady",
            "A workload of the local cluster has fewer ready pods than requested.",
            "The message has the problems of the pods.",
        ),
        Reason(
            "InvalidTarget",
            "The argument of `functions test`, `serve` or `init` is not a function, or not a name.",
            "Follow the message.",
        ),
        Reason("FolderNotEmpty", "The target folder is not empty.", "Choose another folder."),
        Reason(
            "UnknownDistribution",
            "No installed package of this name provides functions.",
            "Choose one of the names in the message.",
        ),
        Reason(
            "PhaseLinesUnavailable",
            "The controller cannot show the log of a phase.",
            "Check that the controller runs and that you may read its endpoint.",
        ),
    ),
)
