"""Descriptions of the values that templates of blueprints can read.

Keys are field paths as the template reference shows them: `NAME` stands for any key
of a map. A test compares them with the types.
"""

from __future__ import annotations

from typing import Final

_WORKLOAD: Final = {
    "": "Set if the object of the action is a {kind}, else null.",
    ".Name": "Name of the {kind}.",
    ".Namespace": "Namespace of the {kind}.",
    ".Pods": "Names of its running pods, in order.",
    ".Containers": "Names of the containers, one list for each pod.",
    ".PersistentVolumeClaims": "Mounted claims by pod.",
    ".PersistentVolumeClaims.NAME": "Mount paths of the claims of one pod, by name of the claim.",
}


def _workload(kind: str) -> dict[str, str]:
    return {f".{kind}{path}": text.format(kind=kind) for path, text in _WORKLOAD.items()}


def _phase(path: str, description: str) -> dict[str, str]:
    return {
        path: description,
        f"{path}.Secrets": "Secrets named in `objects` of the phase, by key.",
        f"{path}.Secrets.NAME": "One Secret; its fields are listed below.",
        f"{path}.ConfigMaps": "ConfigMaps named in `objects` of the phase, by key.",
        f"{path}.ConfigMaps.NAME": "One ConfigMap; its fields are listed below.",
        f"{path}.Output": "Outputs of the phase by name. Set once the phase is complete.",
    }


DESCRIPTIONS: Final = {
    **_workload("StatefulSet"),
    **_workload("DeploymentConfig"),
    **_workload("Deployment"),
    ".PVC": "Set if the object of the action is a PersistentVolumeClaim, else null.",
    ".PVC.Name": "Name of the claim.",
    ".PVC.Namespace": "Namespace of the claim.",
    ".Namespace": "Set if the object of the action is a Namespace, else null.",
    ".Namespace.Name": "Name of the Namespace.",
    ".Namespace.Namespace": "Name of the Namespace, again.",
    ".ArtifactsIn": "Artifacts given to the action, by name.",
    ".ArtifactsIn.NAME": "One artifact.",
    ".ArtifactsIn.NAME.KeyValue": "Keys and values of the artifact.",
    ".ArtifactsIn.NAME.KopiaSnapshot": "Kopia snapshot as JSON text.",
    ".ConfigMaps": "ConfigMaps named in `configMaps` of the action, by key.",
    ".ConfigMaps.NAME": "One ConfigMap; its fields are listed below.",
    ".Secrets": "Secrets named in `secrets` of the action, by key.",
    ".Secrets.NAME": "One Secret; its fields are listed below.",
    ".Time": "Start of the run, such as `2026-01-31T08:30:00Z`.",
    ".Profile": "Profile of the action, or null.",
    ".Profile.Location": "Location of the store.",
    ".Profile.Location.Type": "`s3Compliant`, `gcs`, `azure`, `kopia` or `file`.",
    ".Profile.Location.Bucket": "Bucket, container or folder.",
    ".Profile.Location.Endpoint": "URL of the store. Empty for the provider's own.",
    ".Profile.Location.Prefix": "Path below which data is stored.",
    ".Profile.Location.Region": "Region of the bucket.",
    ".Profile.Credential": "Credentials of the store.",
    ".Profile.Credential.Type": "`keyPair`, `secret`, `kopia` or empty.",
    ".Profile.Credential.KeyPair": "Set for credentials of type `keyPair`.",
    ".Profile.Credential.KeyPair.ID": "Access key ID.",
    ".Profile.Credential.KeyPair.Secret": "Secret access key. Masked in logs and statuses.",
    ".Profile.Credential.Secret": "Set for credentials of type `secret`: the Secret.",
    ".Profile.Credential.KopiaServerSecret": "Set for credentials of type `kopia`.",
    ".Profile.Credential.KopiaServerSecret.Username": "User of the Kopia server.",
    ".Profile.Credential.KopiaServerSecret.Hostname": "Host name of the user.",
    ".Profile.Credential.KopiaServerSecret.Password": "Password. Masked in logs and statuses.",
    ".Profile.Credential.KopiaServerSecret.Cert": "Certificate of the Kopia server.",
    ".Profile.Credential.KopiaServerSecret.ConnectOptions": "Options of the connection.",
    ".Profile.SkipSSLVerify": "Whether the certificate of the store is not verified.",
    ".Options": "Options of the action, by name.",
    ".Object": "Object of the action, with its fields as in YAML: `.Object.metadata.name`.",
    ".Phases": "Phases that have ended, by name.",
    **_phase(".Phases.NAME", "One phase."),
    **_phase(".DeferPhase", "The `deferPhase` of the action. Set in output artifacts."),
    **_phase(".CurrentPhase", "The phase that is being rendered."),
    ".PodOverride": "`podOverride` of the action.",
    ".PodAnnotations": "`podAnnotations` of the action.",
    ".PodLabels": "`podLabels` of the action.",
}
