"""Resources of compositions, functions and their revisions in a cluster."""

from __future__ import annotations

from typing import Final

from kanister_py.core.kube.resources import GroupVersionResource

API_EXTENSIONS: Final = "apiextensions.crossplane.io"
PACKAGES: Final = "pkg.crossplane.io"

COMPOSITIONS: Final = GroupVersionResource(API_EXTENSIONS, "v1", "compositions")
COMPOSITION_REVISIONS: Final = GroupVersionResource(API_EXTENSIONS, "v1", "compositionrevisions")
DEFINITIONS: Final = GroupVersionResource(API_EXTENSIONS, "v1", "compositeresourcedefinitions")
ENVIRONMENT_CONFIGS: Final = GroupVersionResource(API_EXTENSIONS, "v1beta1", "environmentconfigs")
FUNCTIONS: Final = GroupVersionResource(PACKAGES, "v1", "functions")
FUNCTION_REVISIONS: Final = GroupVersionResource(PACKAGES, "v1", "functionrevisions")
RUNTIME_CONFIGS: Final = GroupVersionResource(PACKAGES, "v1beta1", "deploymentruntimeconfigs")
ENDPOINT_SLICES: Final = GroupVersionResource("discovery.k8s.io", "v1", "endpointslices")
