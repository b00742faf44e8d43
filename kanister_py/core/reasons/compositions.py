"""Reasons of composite resources, composition functions and their packages."""

from __future__ import annotations

from typing import Final

from kanister_py.core.reasons.reason import Reason, ReasonGroup

COMPOSITE_RESOURCES: Final = ReasonGroup(
    "Composite resources and claims",
    "Conditions `Synced`, `Ready` and `Responsive`, and events of composite resources, claims and "
    "their definitions. The same errors come from `kanister-py render`.",
    (
        Reason("ReconcileSuccess", "The last reconciliation succeeded."),
        Reason(
            "ReconcileError",
            "The last reconciliation failed and is retried.",
            "The message has the cause.",
        ),
        Reason(
            "ReconcilePaused",
            "An annotation pauses reconciliation.",
            "Remove the annotation `crossplane.io/paused`.",
        ),
        Reason("ReconciliationPaused", "Event: reconciliation was paused by the annotation."),
        Reason("ReconcileRequestHandled", "A reconciliation requested by annotation is done."),
        Reason("Available", "All composed resources are ready."),
        Reason(
            "Creating",
            "The composite resource or some composed resources are not ready yet.",
            "The message names the resources.",
        ),
        Reason("Deleting", "The object is being deleted."),
        Reason("Waiting", "A claim waits for its composite resource to become ready."),
        Reason(
            "FatalError",
            "A function returned a fatal result before it reported this condition.",
            "The condition `Synced` has the message of the function.",
        ),
        Reason("WatchCircuitClosed", "The object is reconciled at every change."),
        Reason(
            "WatchCircuitOpen",
            "The object in the message changes too often; its events are processed with a delay.",
            "Find out what changes it; `kubectl get --watch` shows the changes.",
        ),
        Reason("SelectComposition", "A Composition was selected."),
        Reason("ComposeResources", "Event about composing: the message has the result."),
        Reason("PublishConnectionSecret", "The connection details were written."),
        Reason(
            "PropagateConnectionSecret",
            "The connection Secret of a claim was written, or cannot be.",
            "The message has the cause.",
        ),
        Reason(
            "BindCompositeResource",
            "A claim was bound to its composite resource, or cannot be.",
            "The message has the cause.",
        ),
        Reason("AdoptResource", "An existing object without a controller was adopted."),
        Reason(
            "PollInterval",
            "The annotation with the poll interval is invalid.",
            "Write a duration such as `5m`.",
        ),
        Reason(
            "CompositionFailed",
            "The resources cannot be composed.",
            "The message has the step or resource that failed.",
        ),
        Reason(
            "CompositionNotSelected",
            "No Composition matches the composite resource.",
            "Create one, or correct `compositionRef` or `compositionSelector`.",
        ),
        Reason(
            "CompositionNotCompatible",
            "The selected Composition is for another kind.",
            "Correct `compositionRef`, or `compositeTypeRef` of the Composition.",
        ),
        Reason(
            "CompositionMismatch",
            "`render` was given a Composition for another kind.",
            "Pass the Composition of this kind.",
        ),
        Reason(
            "CompositionRevisionNotFound",
            "The Composition has no revision with this name or these labels.",
            "`kanister-py revisions list` shows them.",
        ),
        Reason(
            "RevisionOfAnotherComposition",
            "`compositionRevisionRef` names a revision of another Composition.",
            "Name a revision of the selected Composition, or remove the reference.",
        ),
        Reason(
            "RevisionNotFound",
            "There is no such revision.",
            "The message lists the existing ones.",
        ),
        Reason(
            "CompositeResourceNotFound",
            "There is no composite resource of this name.",
            "Check the name and the namespace; the message lists the kinds.",
        ),
        Reason(
            "RevisionNotSwitched",
            "The revision cannot be activated or deactivated.",
            "The message has the cause.",
        ),
        Reason(
            "DesiredStateEmpty",
            "The pipeline desires no resources, which would delete all existing ones.",
            "If that is intended, set the annotation in the message.",
        ),
        Reason(
            "DeletionRefused",
            "A resource that is no longer desired belongs to another owner.",
            "Check its owner references.",
        ),
        Reason(
            "ComposedResourceRefused",
            "A function desires a resource that is not a valid object.",
            "The message has the resource and the field.",
        ),
        Reason(
            "ObservedResourceRefused",
            "An observed resource given to `render` is invalid or in another namespace.",
            "Correct the file.",
        ),
        Reason(
            "NamespaceOverridden",
            "A composed resource named another namespace than its composite resource has.",
            "Leave the namespace out in the function.",
        ),
        Reason("SameObject", "Two composed resources are the same object.", "Rename one."),
        Reason("NoText", "A name, label or annotation is not a string.", "Quote it."),
        Reason(
            "InexactNumber",
            "A number is not exact in the protocol, so functions get a rounded one.",
            "Use a string.",
        ),
        Reason("UnknownField", "The object has a field that its kind lacks.", "Correct its name."),
        Reason("StepSkipped", "A step was skipped because its condition `when` is not true."),
        Reason(
            "DeprecatedFunctions",
            "The resource is composed with deprecated versions.",
            "Move the Composition to the replacement before the named release.",
        ),
        Reason(
            "CheckCapabilities",
            "Event: a step calls a removed version, or a package not made for compositions.",
            "Use another version or revision.",
        ),
        Reason(
            "MissingCapabilities",
            "A step calls a package that is not made for compositions.",
            "Use a revision that is made for compositions.",
        ),
        Reason("WatchingCompositeResource", "The kind is defined and its objects are reconciled."),
        Reason("WatchingCompositeResourceClaim", "The claim kind is defined and reconciled."),
        Reason("EstablishComposite", "The definition of the kind was created or updated."),
        Reason(
            "InvalidDefinition",
            "The CompositeResourceDefinition is invalid.",
            "Correct the fields in the message.",
        ),
        Reason("RenderCRD", "No definition can be generated from the XRD.", "See the message."),
        Reason("ApplyCRD", "The API server refuses the generated definition.", "See the message."),
        Reason(
            "NotOurs",
            "A definition of this name belongs to something else.",
            "Delete it, or rename the kind.",
        ),
        Reason(
            "StepInputUnusable",
            "The input that a step refers to does not exist or is invalid.",
            "Correct the reference or the input.",
        ),
        Reason(
            "InvalidFunctionInput",
            "A function does not accept the input of its step.",
            "`kanister-py functions describe NAME` lists the fields.",
        ),
        Reason(
            "FieldPathInvalid",
            "A field path cannot be parsed or followed.",
            "Write paths such as `spec.items[0].name`.",
        ),
        Reason("FieldNotFound", "A required field does not exist.", "Check the field path."),
        Reason("InvalidPatch", "A patch cannot be applied to the object.", "Correct the patch."),
        Reason("CelInvalid", "A CEL expression is invalid.", "Correct it."),
        Reason(
            "CelLimitExceeded",
            "A CEL expression exceeds its cost limit.",
            "Simplify it, or bound the size of lists in the schema.",
        ),
    ),
)

FUNCTION_CALLS: Final = ReasonGroup(
    "Calls of composition functions",
    "Errors of pipeline steps, in the condition `Synced` and in `kanister-py render`.",
    (
        Reason(
            "PipelineStepFailed",
            "A step of the pipeline failed.",
            "The message has the step and the cause.",
        ),
        Reason(
            "PipelineFatal",
            "A function returned a fatal result.",
            "The message comes from the function.",
        ),
        Reason(
            "FunctionRevisionNotFound",
            "No active revision of the function fits the step.",
            "Install it, or correct name, version or labels of the step.",
        ),
        Reason(
            "FunctionUnavailable",
            "The function does not accept connections, or the connection broke.",
            "Check the pods of the function.",
        ),
        Reason(
            "FunctionTimedOut",
            "The function did not respond in time.",
            "Check the function, or raise the timeout of the step.",
        ),
        Reason(
            "FunctionPaused",
            "The function failed repeatedly and is not called for a while.",
            "Check the function; calls resume by themselves.",
        ),
        Reason(
            "FunctionOverloaded",
            "The function has no capacity for the call; it is retried.",
            "Add replicas of the function.",
        ),
        Reason(
            "FunctionCallFailed",
            "The function failed with an error of its own.",
            "The message has the error.",
        ),
        Reason(
            "FunctionCertificateRefused",
            "The function or the controller does not trust the certificate of the other.",
            "Check the TLS Secrets of the function.",
        ),
        Reason(
            "FunctionAnswerTooLarge",
            "Request or response exceeds the size limit.",
            "Reduce the data, or raise the limit of the controller.",
        ),
        Reason(
            "FunctionAnswerInvalid",
            "The response of the function is not a valid message.",
            "Check the version of the SDK that the function uses.",
        ),
        Reason(
            "FunctionRequestInvalid",
            "The request cannot be encoded or decoded.",
            "The message has the value.",
        ),
        Reason(
            "FunctionNotServed",
            "No function is served at the address, or its program cannot be started.",
            "Correct the address or the command, or start the function.",
        ),
        Reason(
            "InvalidResponse",
            "A Python function builds a response that the protocol cannot express.",
            "Correct the function; the message has the value.",
        ),
        Reason(
            "CredentialMissing",
            "A Secret that a step lists under `credentials` does not exist.",
            "Create it.",
        ),
        Reason(
            "RequirementRefused",
            "A function requests resources that it may not read.",
            "Allow them, or correct the function.",
        ),
        Reason(
            "RequirementsUnsettled",
            "A function requests different resources in every round.",
            "Correct the function: its requirements must settle.",
        ),
        Reason(
            "ExtraResourcesDisabled",
            "A function requests extra resources, and the controller provides none.",
            "Start the controller without `--disable-extra-resources`.",
        ),
    ),
)

PACKAGES: Final = ReasonGroup(
    "Functions and packages",
    "Conditions `Installed`, `Healthy`, `RuntimeHealthy` and `RuntimeActive`, and events of "
    "Functions and FunctionRevisions.",
    (
        Reason("ActivePackageRevision", "The package is installed and has an active revision."),
        Reason(
            "InactivePackageRevision",
            "The package is installed, and no revision is active.",
            "Activate one with `kanister-py revisions activate`.",
        ),
        Reason("HealthyPackageRevision", "All active revisions are healthy."),
        Reason(
            "UnhealthyPackageRevision",
            "A revision or its runtime is not healthy.",
            "The message has the cause.",
        ),
        Reason("ActiveRuntime", "The Deployment of the revision is running."),
        Reason("InactiveRuntime", "The revision is inactive, so nothing runs."),
        Reason(
            "UnpackingPackage",
            "The package cannot be read.",
            "The message has the cause: name, registry, pull secret or content.",
        ),
        Reason("UnpackPackage", "Event: the package cannot be read.", "See the message."),
        Reason("CreateRevision", "A revision was created."),
        Reason("UpdateRevision", "A revision was updated."),
        Reason("TransitionRevision", "A revision was activated or deactivated."),
        Reason("GarbageCollect", "An old revision was deleted."),
        Reason(
            "ResolveDependencies",
            "The dependencies of a package were resolved, or cannot be.",
            "The message has the cause.",
        ),
        Reason(
            "DependencyUnresolved",
            "A dependency is missing, or its version conflicts with the installed one.",
            "Install a version that satisfies the named range.",
        ),
        Reason(
            "InvalidLimits",
            "`activeRevisionLimit` or the history limit is invalid.",
            "Correct the field.",
        ),
        Reason(
            "InvalidRuntime",
            "An annotation or runtime config of the Function is invalid.",
            "Correct the field in the message.",
        ),
        Reason("InvalidPackage", "The image is not a function package.", "Check the image."),
        Reason(
            "InvalidPackageReference",
            "`spec.package` cannot be parsed.",
            "Write `REGISTRY/REPOSITORY:TAG` or `…@sha256:DIGEST`.",
        ),
        Reason(
            "PackageNotFound",
            "The registry has no such package, or denies access.",
            "Check name, tag and pull secret.",
        ),
        Reason(
            "RegistryUnavailable",
            "The registry does not respond; the request is retried.",
            "Check the network.",
        ),
        Reason(
            "InvalidDockerConfig",
            "A pull secret is not a Docker configuration.",
            "Create it with `kubectl create secret docker-registry`.",
        ),
        Reason(
            "BuiltInStandsIn",
            "A built-in function replaces the package of the same name.",
            "Set the runtime annotation to run the package.",
        ),
        Reason(
            "BuiltInLeftOut",
            "The manifest runs a function of its own in place of the built-in one of that name.",
        ),
        Reason(
            "BuiltInNotListed",
            "The file of Functions given to `render` lacks a function that is built in.",
            "Add a Function of that name with the runtime `InProcess`, or leave the file out.",
        ),
        Reason(
            "NoStandIn",
            "With `--strict-versions`, no built-in version is known to replace this release.",
            "Use a release in the message, or run the package at an address.",
        ),
    ),
)
