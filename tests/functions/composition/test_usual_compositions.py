"""Common compositions with these functions, rendered from files to documents."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kanister_py.cli.main import main

XR = """\
apiVersion: example.org/v1
kind: XShop
metadata: {name: shop, labels: {tier: gold}}
spec:
  count: 2
  region: eu-west-1
  storage: 20Gi
  zones: [a, b]
  owner: {team: Payments}
"""
NAME = "crossplane.io/composition-resource-name"
Documents = list[dict[str, Any]]
Render = Callable[..., Documents]


@pytest.fixture
def render(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Render:
    """Render steps, each a function and its input in YAML, and return the documents."""
    monkeypatch.chdir(tmp_path)

    def run(
        *steps: tuple[str, str], words: tuple[str, ...] = (), xr: str = XR, **files: str
    ) -> Documents:
        spec = {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XShop"},
            "mode": "Pipeline",
            "pipeline": [
                {
                    "step": f"step-{at}",
                    "functionRef": {"name": f"crossplane-contrib-function-{function}"},
                    **({"input": yaml.safe_load(function_input)} if function_input else {}),
                }
                for at, (function, function_input) in enumerate(steps)
            ],
        }
        kind = {"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition"}
        composition = {**kind, "metadata": {"name": "shops"}, "spec": spec}
        Path("xr.yaml").write_text(xr, encoding="utf-8")
        Path("composition.yaml").write_text(yaml.safe_dump(composition), encoding="utf-8")
        for name, text in files.items():
            Path(f"{name}.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
        capsys.readouterr()
        code = main(["render", "xr.yaml", "composition.yaml", *words])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return [document for document in yaml.safe_load_all(printed.out) if document]

    return run


def go_template(text: str) -> tuple[str, str]:
    run_files = {
        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
        "kind": "GoTemplate",
        "source": "Inline",
        "inline": {"template": textwrap.dedent(text)},
    }
    return "go-templating", yaml.safe_dump(run_files)


def named(documents: Documents) -> dict[str, dict[str, Any]]:
    """Return the composed resources by their names in the composition."""
    return {
        document["metadata"]["annotations"][NAME]: document
        for document in documents[1:]
        if NAME in (document.get("metadata") or {}).get("annotations", {})
    }


def ready_of(documents: Documents) -> tuple[str, str]:
    conditions = {
        condition["type"]: condition for condition in documents[0]["status"]["conditions"]
    }
    return conditions["Ready"]["status"], conditions["Ready"].get("message", "")


BUCKETS = """\
    {{- range $i := until (.observed.composite.resource.spec.count | int) }}
    ---
    apiVersion: s3.example.org/v1
    kind: Bucket
    metadata:
      annotations:
        {{ setResourceNameAnnotation (print "bucket-" $i) }}
      labels:
        {{- toYaml $.observed.composite.resource.metadata.labels | nindent 8 }}
    spec:
      region: {{ $.observed.composite.resource.spec.region }}
      {{- with getComposedResource $ (print "bucket-" $i) }}
      policyFor: {{ .status.arn }}
      {{- end }}
    {{- end }}
    """


class TestGoTemplates:
    def test_number_of_resources_from_the_composite_resource(self, render: Render) -> None:
        resources = named(render(go_template(BUCKETS)))
        assert list(resources) == ["bucket-0", "bucket-1"]
        assert resources["bucket-1"]["spec"] == {"region": "eu-west-1"}
        assert resources["bucket-1"]["metadata"]["labels"]["crossplane.io/composite"] == "shop"

    def test_observed_resources_are_read_in_the_next_round(self, render: Render) -> None:
        documents = render(
            go_template(BUCKETS),
            ("auto-ready", ""),
            words=("-o", "observed.yaml"),
            observed=f"""\
            apiVersion: s3.example.org/v1
            kind: Bucket
            metadata: {{name: shop-abc, annotations: {{{NAME}: bucket-0}}}}
            status: {{arn: "arn:1", conditions: [{{type: Ready, status: "True"}}]}}
            """,
        )
        resources = named(documents)
        assert resources["bucket-0"]["spec"]["policyFor"] == "arn:1"
        assert resources["bucket-0"]["metadata"]["name"] == "shop-abc"
        assert "policyFor" not in resources["bucket-1"]["spec"]
        assert ready_of(documents) == ("False", "Unready resources: bucket-1")

    def test_status_and_condition_of_the_composite_resource(self, render: Render) -> None:
        documents = render(
            go_template(
                """\
                apiVersion: example.org/v1
                kind: XShop
                status:
                  zones: {{ .observed.composite.resource.spec.zones | join "," }}
                ---
                apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
                kind: ClaimConditions
                conditions:
                - type: QuotaLeft
                  status: "False"
                  reason: Exhausted
                  message: no more zones
                  target: CompositeAndClaim
                """
            )
        )
        status = documents[0]["status"]
        assert status["zones"] == "a,b"
        own = next(
            condition for condition in status["conditions"] if condition["type"] == "QuotaLeft"
        )
        assert (own["status"], own["reason"]) == ("False", "Exhausted")
        assert own["message"] == "no more zones"

    def test_value_is_passed_in_the_context(self, render: Render) -> None:
        documents = render(
            go_template(
                """\
                apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
                kind: Context
                data:
                  shops: {newest: {{ .observed.composite.resource.metadata.name }}}
                """
            ),
            go_template(
                """\
                apiVersion: v1
                kind: ConfigMap
                metadata: {annotations: { {{ setResourceNameAnnotation "cm" }} }}
                data: {newest: {{ .context.shops.newest }}}
                """
            ),
            words=("-c", "--context-values", 'shops={"oldest": "inn"}'),
        )
        assert named(documents)["cm"]["data"] == {"newest": "shop"}
        assert documents[-1]["fields"]["shops"] == {"newest": "shop", "oldest": "inn"}

    def test_resources_requested_by_a_template(self, render: Render) -> None:
        documents = render(
            go_template(
                """\
                apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
                kind: ExtraResources
                requirements:
                  networks:
                    apiVersion: example.org/v1
                    kind: Network
                    matchLabels: {tier: gold}
                {{- range getExtraResources . "networks" }}
                ---
                apiVersion: v1
                kind: ConfigMap
                metadata:
                  annotations:
                    {{ setResourceNameAnnotation (print "in-" .resource.metadata.name) }}
                data: {cidr: {{ .resource.spec.cidr }}}
                {{- end }}
                """
            ),
            words=("-e", "networks.yaml"),
            networks="""\
            apiVersion: example.org/v1
            kind: Network
            metadata: {name: blue, labels: {tier: gold}}
            spec: {cidr: 10.0.0.0/8}
            ---
            apiVersion: example.org/v1
            kind: Network
            metadata: {name: red, labels: {tier: silver}}
            spec: {cidr: 172.16.0.0/12}
            """,
        )
        resources = named(documents)
        assert {name: resource["data"] for name, resource in resources.items()} == {
            "in-blue": {"cidr": "10.0.0.0/8"}
        }

    def test_recursive_template_definitions(self, render: Render) -> None:
        documents = render(
            go_template(
                """\
                {{- define "count" }}
                {{- if gt (int .) 0 }}{{ . }} {{ include "count" (sub (int .) 1) }}{{ end }}
                {{- end -}}
                apiVersion: v1
                kind: ConfigMap
                metadata: {annotations: { {{ setResourceNameAnnotation "cm" }} }}
                data: {down: {{ include "count" 3 | trim | quote }}}
                """
            )
        )
        assert named(documents)["cm"]["data"] == {"down": "3 2 1"}


PATCHES = """\
apiVersion: pt.fn.crossplane.io/v1beta1
kind: Resources
patchSets:
- name: names
  patches:
  - {type: FromCompositeFieldPath, fromFieldPath: metadata.labels}
  - type: FromCompositeFieldPath
    fromFieldPath: spec.region
    toFieldPath: spec.forProvider.region
    transforms: [{type: map, map: {eu-west-1: Ireland, us-east-1: Virginia}}]
resources:
- name: database
  base:
    apiVersion: sql.example.org/v1
    kind: Instance
    spec: {forProvider: {storageGB: 1}, deletionPolicy: Delete}
  patches:
  - {type: PatchSet, patchSetName: names}
  - type: CombineFromComposite
    combine:
      variables: [{fromFieldPath: metadata.name}, {fromFieldPath: spec.region}]
      strategy: string
      string: {fmt: "%s-%s-db"}
    toFieldPath: metadata.annotations[crossplane.io/external-name]
  - fromFieldPath: spec.storage
    toFieldPath: spec.forProvider.storageBytes
    transforms: [{type: convert, convert: {toType: float64, format: quantity}}]
  - fromFieldPath: spec.owner.team
    toFieldPath: spec.forProvider.team
    transforms:
    - {type: string, string: {type: Convert, convert: ToLower}}
    - {type: string, string: {type: Format, fmt: "team-%s"}}
  - {type: ToCompositeFieldPath, fromFieldPath: status.endpoint, toFieldPath: status.endpoint}
  - fromFieldPath: spec.nowhere
    toFieldPath: spec.optional
  readinessChecks:
  - {type: MatchString, fieldPath: status.state, matchString: UP}
"""


class TestPatchAndTransform:
    def test_resource_with_base_and_patches(self, render: Render) -> None:
        documents = render(("patch-and-transform", PATCHES))
        database = named(documents)["database"]
        assert database["metadata"]["labels"]["tier"] == "gold"
        annotations = database["metadata"]["annotations"]
        assert annotations["crossplane.io/external-name"] == "shop-eu-west-1-db"
        assert database["spec"] == {
            "deletionPolicy": "Delete",
            "forProvider": {
                "region": "Ireland",
                "storageBytes": 21474836480,
                "storageGB": 1,
                "team": "team-payments",
            },
        }
        assert "endpoint" not in documents[0]["status"]
        assert ready_of(documents) == ("False", "Unready resources: database")

    def test_field_of_a_resource_is_patched_to_the_composite(self, render: Render) -> None:
        documents = render(
            ("patch-and-transform", PATCHES),
            words=("-o", "observed.yaml"),
            observed=f"""\
            apiVersion: sql.example.org/v1
            kind: Instance
            metadata: {{name: db, annotations: {{{NAME}: database}}}}
            status: {{state: UP, endpoint: "db.example.org:5432"}}
            """,
        )
        assert documents[0]["status"]["endpoint"] == "db.example.org:5432"
        assert ready_of(documents) == ("True", "")

    def test_later_step_patches_a_resource_of_an_earlier_one(self, render: Render) -> None:
        later = """\
        resources:
        - name: bucket-0
          patches: [{fromFieldPath: spec.owner.team, toFieldPath: spec.team}]
        """
        resources = named(render(go_template(BUCKETS), ("patch-and-transform", later)))
        assert resources["bucket-0"]["spec"] == {"region": "eu-west-1", "team": "Payments"}
        assert resources["bucket-1"]["spec"] == {"region": "eu-west-1"}


class TestEnvironments:
    def test_configurations_are_merged_and_patched_from(self, render: Render) -> None:
        documents = render(
            (
                "environment-configs",
                """\
                spec:
                  environmentConfigs:
                  - {type: Reference, ref: {name: defaults}}
                  - type: Selector
                    selector:
                      matchLabels:
                      - {key: tier, valueFromFieldPath: "metadata.labels[tier]"}
                """,
            ),
            (
                "patch-and-transform",
                """\
                environment:
                  patches:
                  - type: FromCompositeFieldPath
                    fromFieldPath: spec.region
                    toFieldPath: region
                resources:
                - name: cm
                  base: {apiVersion: v1, kind: ConfigMap}
                  patches:
                  - {type: FromEnvironmentFieldPath, fromFieldPath: dns, toFieldPath: data.dns}
                  - {type: FromEnvironmentFieldPath, fromFieldPath: size, toFieldPath: data.size}
                  - type: CombineFromEnvironment
                    combine:
                      variables: [{fromFieldPath: region}, {fromFieldPath: dns}]
                      strategy: string
                      string: {fmt: "%s.%s"}
                    toFieldPath: data.host
                """,
            ),
            words=("-e", "configs.yaml"),
            configs="""\
            apiVersion: apiextensions.crossplane.io/v1beta1
            kind: EnvironmentConfig
            metadata: {name: defaults}
            data: {dns: example.org, size: small}
            ---
            apiVersion: apiextensions.crossplane.io/v1beta1
            kind: EnvironmentConfig
            metadata: {name: golden, labels: {tier: gold}}
            data: {size: large}
            """,
        )
        assert named(documents)["cm"]["data"] == {
            "dns": "example.org",
            "host": "eu-west-1.example.org",
            "size": "large",
        }

    def test_extra_resources_are_given_to_a_template(self, render: Render) -> None:
        documents = render(
            (
                "extra-resources",
                """\
                spec:
                  extraResources:
                  - kind: Cluster
                    apiVersion: example.org/v1
                    into: clusters
                    type: Selector
                    selector:
                      minMatch: 1
                      maxMatch: 1
                      sortByFieldPath: spec.rank
                      matchLabels: [{type: Value, key: kind, value: shop}]
                """,
            ),
            go_template(
                """\
                apiVersion: v1
                kind: ConfigMap
                metadata: {annotations: { {{ setResourceNameAnnotation "cm" }} }}
                {{- $extra := index .context "apiextensions.crossplane.io/extra-resources" }}
                data: {clusters: "{{ range $extra.clusters }}{{ .metadata.name }}{{ end }}"}
                """
            ),
            words=("-e", "clusters.yaml"),
            clusters="""\
            apiVersion: example.org/v1
            kind: Cluster
            metadata: {name: second, labels: {kind: shop}}
            spec: {rank: 2}
            ---
            apiVersion: example.org/v1
            kind: Cluster
            metadata: {name: first, labels: {kind: shop}}
            spec: {rank: 1}
            """,
        )
        assert named(documents)["cm"]["data"] == {"clusters": "first"}


class TestReadiness:
    def test_kinds_without_condition_and_with_own_check(self, render: Render) -> None:
        documents = render(
            go_template(BUCKETS),
            (
                "auto-ready",
                """\
                celHealthCheckCustomization:
                  s3.example.org_v1_Bucket: object.status.state in ["UP", "IDLE"]
                """,
            ),
            words=("-o", "observed.yaml"),
            observed="".join(
                "---\napiVersion: s3.example.org/v1\nkind: Bucket\n"
                f"metadata: {{name: b{at}, annotations: {{{NAME}: bucket-{at}}}}}\n"
                f"status: {{state: {state}, arn: x}}\n"
                for at, state in enumerate(("IDLE", "DOWN"))
            ),
        )
        assert ready_of(documents) == ("False", "Unready resources: bucket-1")
