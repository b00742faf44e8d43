"""Pipeline runs: composed resources, results and conditions, failures."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.capabilities import FunctionCapabilityMissing
from kanister_py.core.compositions.desired import ComposedResourceRefused, ComposedRules
from kanister_py.core.compositions.messages import Data, FunctionResponse
from kanister_py.core.compositions.model import AllowedResource, Credential, Step
from kanister_py.core.compositions.pipeline import CAPABILITIES, Observed, PipelineFatal
from kanister_py.core.compositions.results import Event
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.registry.choose import RevisionRequest
from kanister_py.core.registry.entries import (
    DesiredState,
    FunctionRevision,
    Registry,
    RegistryBuilder,
)
from kanister_py.core.retries import Retry
from kanister_py.core.versions.semver import parse_version
from kanister_py.executor.run_pipeline import (
    CredentialMissing,
    PipelineStepFailed,
    PipelineStepRefused,
    PipelineStepUnavailable,
    Record,
)
from kanister_py.ports.function_runner import (
    FunctionAnswerInvalid,
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionCallFailed,
    FunctionCertificateRefused,
    FunctionTimedOut,
    FunctionUnavailable,
)
from tests.executor.stage import Stage, adds, config_map, passes, xr

RESULT = {"severity": "SEVERITY_NORMAL", "message": "made it"}


def named(resource: str, obj: Data) -> Data:
    """Return an object as the XR would have composed it before."""
    metadata = {**obj["metadata"]}
    metadata["annotations"] = {"crossplane.io/composition-resource-name": resource}
    return {**obj, "metadata": metadata}


class TestComposedState:
    def test_a_step_gets_the_desired_state_of_earlier_steps(self) -> None:
        stage = Stage({"a": adds("one", config_map()), "b": adds("two", config_map())})
        composed = stage.compose(*stage.steps("a", "b"))
        assert [resource.name for resource in composed.resources] == ["one", "two"]
        assert stage.runner.calls[0].request.desired.data == {}
        assert list(stage.runner.calls[1].request.desired.data["resources"]) == ["one"]

    def test_resources_that_a_step_omits_are_gone(self) -> None:
        stage = Stage({"a": adds("one", config_map()), "b": lambda _: {}})
        assert stage.compose(*stage.steps("a", "b")).resources == ()

    def test_context_is_passed_on_and_replaced(self) -> None:
        def writes(request: Data) -> Data:
            return {"context": {**request["context"], "made": 1}}

        stage = Stage({"a": writes, "b": passes, "c": lambda _: {}})
        composed = stage.compose(*stage.steps("a", "b"), context={"given": True})
        assert composed.context == {"given": True, "made": 1}
        assert stage.compose(*stage.steps("a", "c")).context == {}

    def test_a_request_contains_capabilities_and_input(self) -> None:
        stage = Stage({"a": passes})
        stage.compose(Step("a", "a", input={"kind": "Input"}))
        [call] = stage.runner.calls
        data = call.request.as_data()
        assert data["meta"]["capabilities"] == list(CAPABILITIES)
        assert len(data["meta"]["tag"]) == 64
        assert data["input"] == {"kind": "Input"}
        assert data["observed"]["composite"]["resource"]["kind"] == "XApp"

    def test_a_composed_resource_is_named_labelled_and_owned(self) -> None:
        stage = Stage({"a": adds("database", config_map())})
        owner = xr(metadata={"name": "shop", "namespace": "team-a", "uid": "u-1"})
        composed = stage.compose(*stage.steps("a"), observed=Observed(owner))
        metadata = composed.resources[0].object["metadata"]
        assert metadata["generateName"] == "shop-"
        assert metadata["name"].startswith("shop-")
        assert len(metadata["name"]) == 17
        assert metadata["namespace"] == "team-a"
        assert metadata["labels"] == {"crossplane.io/composite": "shop"}
        assert metadata["annotations"] == {"crossplane.io/composition-resource-name": "database"}
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "example.org/v1",
                "blockOwnerDeletion": True,
                "controller": True,
                "kind": "XApp",
                "name": "shop",
                "uid": "u-1",
            }
        ]
        again = stage.compose(*stage.steps("a"), observed=Observed(owner))
        assert again.resources == composed.resources

    def test_labels_of_a_claim_reach_its_resources(self) -> None:
        labels = {"crossplane.io/claim-name": "mine", "crossplane.io/claim-namespace": "me"}
        stage = Stage({"a": adds("x", config_map())})
        owner = xr(metadata={"name": "shop", "labels": labels})
        [composed] = stage.compose(*stage.steps("a"), observed=Observed(owner)).resources
        assert composed.object["metadata"]["labels"] == {
            **labels,
            "crossplane.io/composite": "shop",
        }

    def test_an_observed_resource_keeps_its_name(self) -> None:
        stage = Stage({"a": adds("x", config_map(name="new", generateName="other-"))})
        before = named("x", config_map(name="old", namespace="team-a"))
        [composed] = stage.compose(
            *stage.steps("a"), observed=Observed(xr(), {"x": before})
        ).resources
        assert composed.object["metadata"]["name"] == "old"
        assert "generateName" not in composed.object["metadata"]

    def test_a_resource_gets_the_namespace_of_its_xr(self) -> None:
        stage = Stage({"a": adds("x", config_map(namespace="elsewhere"))})
        composed = stage.compose(*stage.steps("a"))
        assert composed.resources[0].object["metadata"]["namespace"] == "team-a"
        assert composed.events == (
            Event(
                "Warning",
                "NamespaceOverridden",
                'cannot create composed resource "x" in namespace "elsewhere", '
                'using XR namespace "team-a" instead',
            ),
        )

    def test_references_are_sorted_and_omit_the_namespace_of_the_xr(self) -> None:
        functions = {
            "a": adds("x", config_map(name="b", namespace="n")),
            "b": adds("y", config_map(name="a")),
        }
        stage = Stage(functions)
        cluster_scoped = xr(metadata={"name": "shop"})
        refs = stage.compose(*stage.steps("a", "b"), observed=Observed(cluster_scoped)).refs
        assert refs == (
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"},
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "namespace": "n"},
        )
        inside = stage.compose(*stage.steps("a", "b")).refs
        assert all("namespace" not in reference for reference in inside)

    def test_only_the_status_of_the_desired_xr_counts(self) -> None:
        composite = {
            "resource": {"spec": {"no": 1}, "status": {"n": 3.0, "conditions": [{}]}},
            "ready": "READY_FALSE",
        }
        stage = Stage({"a": lambda _: {"desired": {"composite": composite}}})
        composed = stage.compose(*stage.steps("a"))
        assert composed.status == {"n": 3}
        assert isinstance(composed.status["n"], int)
        assert composed.composite_ready is False

    def test_only_legacy_xrs_have_connection_details(self) -> None:
        desired = {"composite": {"connectionDetails": {"user": "eA=="}}}
        for legacy, details in ((True, {"user": "eA=="}), (False, {})):
            stage = Stage(
                {"a": lambda _: {"desired": desired}}, rules=ComposedRules(is_legacy=legacy)
            )
            assert stage.compose(*stage.steps("a")).connection_details == details

    def test_an_own_resource_that_is_no_longer_desired_is_deleted(self) -> None:
        owner = xr()
        reference = {"controller": True, "uid": owner["metadata"]["uid"]}
        ours = named("gone", config_map(name="gone", ownerReferences=[reference]))
        nobodys = named("free", config_map(name="free"))
        stage = Stage({"a": passes})
        seen = Observed(owner, {"gone": ours, "free": nobodys})
        assert [
            resource.name for resource in stage.compose(*stage.steps("a"), observed=seen).deleted
        ] == ["gone"]

    def test_resources_of_other_owners_are_not_deleted(self) -> None:
        theirs = {"controller": True, "uid": "other", "kind": "XDb", "name": "db"}
        seen = Observed(xr(), {"x": named("x", config_map(name="x", ownerReferences=[theirs]))})
        stage = Stage({"a": passes})
        error = stage.compose(*stage.steps("a"), observed=seen).error
        assert error is not None
        assert error.reason == "DeletionRefused"
        assert error.message.endswith('composed resource "x" that is controlled by XDb "db"')

    def test_the_pipeline_has_the_shortest_time_to_live(self) -> None:
        def lives(ttl: str) -> Any:
            return lambda request: passes(request, meta={"ttl": ttl})

        stage = Stage({"a": lives("60s"), "b": lives("10s"), "c": lives("0s")})
        assert stage.compose(*stage.steps("a", "b", "c")).ttl_seconds == 10
        assert stage.compose(*stage.steps("c")).ttl_seconds == 0
        assert stage.compose(Step("a", "a", ttl_seconds=5)).ttl_seconds == 5

    def test_a_number_that_a_double_cannot_represent_is_reported_with_its_path(self) -> None:
        big = 2**53 + 1
        stage = Stage({"a": adds("x", {**config_map(), "spec": {"n": [big]}})})
        observed_xr = xr(spec={"id": big})
        composed = stage.compose(
            Step("a", "a", input={"deep": {"n": big}}), observed=Observed(observed_xr)
        )
        assert [notice.facts["path"] for notice in composed.notices] == [
            "observed.composite.resource.spec.id",
            "pipeline[a].input.deep.n",
            "desired.resources[x].resource.spec.n[0]",
        ]

    def test_credentials_of_a_step_reach_only_its_function(self) -> None:
        secret = {"metadata": {"namespace": "n", "name": "s"}, "data": {"token": "eA=="}}
        stage = Stage({"a": passes, "b": passes}, secrets=[secret])
        credential = Credential("cloud", "n", "s")
        stage.compose(Step("a", "a", credentials=(credential, Credential("none"))), Step("b", "b"))
        first, second = stage.runner.calls
        assert first.request.credentials == {
            "cloud": {"credentialData": {"data": {"token": "eA=="}}}
        }
        assert second.request.credentials is None


class TestResultsAndOutcomes:
    def test_results_become_events_in_their_order(self) -> None:
        results = [
            {"severity": "SEVERITY_WARNING", "message": "careful", "reason": "Careful"},
            {**RESULT, "target": "TARGET_COMPOSITE_AND_CLAIM"},
            {"message": "what is this"},
        ]
        stage = Stage({"a": lambda request: passes(request, results=results)})
        assert stage.compose(*stage.steps("a")).events == (
            Event("Warning", "Careful", 'Pipeline step "a": careful'),
            Event("Normal", "ComposeResources", 'Pipeline step "a": made it', "made it"),
            Event(
                "Warning",
                "ComposeResources",
                'Pipeline step "a" returned a result of unknown severity (assuming warning): '
                "what is this",
            ),
        )

    def test_a_fatal_result_ends_the_pipeline_and_keeps_earlier_results(self) -> None:
        fatal = {"severity": "SEVERITY_FATAL", "message": "no"}
        condition = {"type": "Ok", "status": "STATUS_CONDITION_FALSE", "reason": "No"}
        stage = Stage(
            {
                "a": lambda request: passes(request, results=[RESULT]),
                "b": lambda request: passes(
                    request, results=[RESULT, fatal, RESULT], conditions=[condition]
                ),
                "c": passes,
            }
        )
        composed = stage.compose(*stage.steps("a", "b", "c"))
        assert isinstance(composed.error, PipelineFatal)
        assert (composed.error.step, composed.error.function, composed.error.revision) == (
            "b",
            "b",
            "b-1",
        )
        assert composed.error.message.startswith('pipeline step "b" returned a fatal result: no')
        assert len(composed.events) == 2
        assert [condition.type for condition in composed.conditions] == ["Ok"]
        assert [outcome.worst for outcome in composed.outcomes] == ["Normal", "Fatal"]
        assert composed.resources == ()
        assert len(stage.runner.calls) == 2

    def test_each_step_has_an_outcome_with_its_revision_and_duration(self) -> None:
        stage = Stage({"a": passes})

        def slow(request: Data) -> Data:
            stage.clock.advance(1.5)
            return passes(request)

        stage.runner.answers["a"] = slow
        [outcome] = stage.compose(*stage.steps("a")).outcomes
        assert outcome.as_dict() == {
            "step": "a",
            "function": "a",
            "revision": "a-1",
            "seconds": 1.5,
            "calls": 1,
            "cached": False,
            "worst": "Normal",
        }

    def test_a_listener_gets_a_record_of_each_call(self) -> None:
        records: list[Record] = []
        stage = Stage({"a": passes}, note=records.append)
        stage.compose(*stage.steps("a"))
        assert [record.call.step for record in records] == ["a"]
        assert records[0].response is not None


class TestConditions:
    def test_a_step_with_a_false_condition_is_skipped_with_a_result(self) -> None:
        stage = Stage({"a": adds("one", config_map()), "b": adds("two", config_map())})
        composed = stage.compose(
            Step("a", "a", when="observed.composite.resource.spec.region == 'us'"),
            Step("b", "b", when="!('one' in desired.resources) && size(context) == 0"),
        )
        assert composed.error is None
        assert composed.outcomes[0].skipped.startswith("its when is false")
        assert [resource.name for resource in composed.resources] == ["two"]

    def test_a_condition_can_read_the_request_of_its_function(self) -> None:
        stage = Stage({"a": adds("one", config_map()), "b": adds("two", config_map())})
        composed = stage.compose(
            Step("a", "a", when="true"),
            Step("b", "b", when="'one' in desired.resources && context.key == 'x'"),
            context={"key": "x"},
        )
        assert composed.error is None
        assert [resource.name for resource in composed.resources] == ["one", "two"]

    @pytest.mark.parametrize(
        "when", [pytest.param("1 +", id="no expression"), pytest.param("1 + 1", id="no answer")]
    )
    def test_a_condition_without_a_boolean_result_stops_the_pipeline(self, when: str) -> None:
        stage = Stage({"a": passes})
        error = stage.compose(Step("a", "a", when=when)).error
        assert isinstance(error, PipelineStepRefused)
        assert error.step == "a"
        assert not stage.runner.calls


def channels() -> Registry[FunctionRevision]:
    def revision(number: int, channel: str, **more: Any) -> FunctionRevision:
        base = FunctionRevision(
            "f",
            f"f-{number}",
            number,
            {"channel": channel},
            is_healthy=True,
            endpoint="test:",
            version=parse_version(f"0.{number}.0"),
        )
        return base._replace(**more)

    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add(
        [
            revision(1, "stable"),
            revision(2, "stable"),
            revision(3, "alpha"),
            revision(4, "alpha", desired_state=DesiredState.INACTIVE),
        ]
    )
    return builder.build()


class TestRevisions:
    @pytest.mark.parametrize(
        ("request_", "want"),
        [
            pytest.param(RevisionRequest(), "f-3", id="the highest active one"),
            pytest.param(RevisionRequest(name="f-1"), "f-1", id="by name"),
            pytest.param(RevisionRequest(labels={"channel": "stable"}), "f-2", id="by labels"),
            pytest.param(RevisionRequest(version="~0.1"), "f-1", id="by a range"),
            pytest.param(
                RevisionRequest(name="f-1", labels={"channel": "alpha"}), "f-1", id="name wins"
            ),
        ],
    )
    def test_a_step_calls_the_requested_revision(
        self, request_: RevisionRequest, want: str
    ) -> None:
        stage = Stage({"f": passes}, revisions=channels())
        composed = stage.compose(Step("s", "f", request_))
        assert composed.outcomes[0].revision == want
        assert stage.runner.calls[0].revision.name == want

    @pytest.mark.parametrize(
        ("request_", "refusal"),
        [
            pytest.param(
                RevisionRequest(name="f-4"), "f-4 (revision 4) is inactive", id="inactive"
            ),
            pytest.param(RevisionRequest(name="f-9"), "f-9 is not a revision of f", id="not there"),
            pytest.param(
                RevisionRequest(labels={"channel": "beta"}), "has channel=alpha", id="no such label"
            ),
        ],
    )
    def test_a_pipeline_fails_if_no_revision_matches_and_reports_the_reasons(
        self, request_: RevisionRequest, refusal: str
    ) -> None:
        stage = Stage({"f": passes}, revisions=channels())
        error = stage.compose(Step("s", "f", request_)).error
        assert isinstance(error, PipelineStepRefused)
        assert (error.step, error.function) == ("s", "f")
        assert refusal in error.message

    def test_a_function_without_the_composition_capability_is_not_called(self) -> None:
        def revision_of(number: int, capability: str) -> FunctionRevision:
            return FunctionRevision(
                "f",
                f"f-{number}",
                number,
                is_healthy=True,
                endpoint="test:",
                capabilities=(capability,),
            )

        builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
        builder.add([revision_of(1, "composition"), revision_of(2, "operation")])
        stage = Stage({"f": passes}, revisions=builder.build())
        error = stage.compose(Step("s", "f")).error
        assert isinstance(error, PipelineStepRefused)
        assert (error.step, error.function, error.revision) == ("s", "f", "f-2")
        assert isinstance(error.cause, FunctionCapabilityMissing)
        assert error.cause.alternatives == ("f-1",)
        assert not stage.runner.calls
        assert stage.compose(Step("s", "f", RevisionRequest(name="f-1"))).error is None
        assert stage.compose(Step("s", "f", when="false")).error is None

    def test_a_missing_function_is_reported_with_its_step(self) -> None:
        stage = Stage({"auto-ready": passes})
        error = stage.compose(Step("s", "auto-redy")).error
        assert isinstance(error, PipelineStepRefused)
        assert "did you mean auto-ready?" in error.message


class Raises:
    def __init__(self, *errors: KanisterError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.calls += 1
        raise self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]

    def close(self) -> None:
        pass


WHERE = ("s", "f", "f-1")


class TestFailures:
    @pytest.mark.parametrize(
        "cause",
        [
            pytest.param(FunctionTimedOut(*WHERE, "it did not respond within 1 s"), id="hangs"),
            pytest.param(FunctionUnavailable(*WHERE, "the connection broke off"), id="dies"),
            pytest.param(FunctionAnswerTooLarge(*WHERE, "more than 64 MiB"), id="65 MB"),
            pytest.param(FunctionAnswerInvalid(*WHERE, "not JSON"), id="garbage"),
            pytest.param(FunctionCertificateRefused(*WHERE, "expired"), id="certificate"),
            pytest.param(FunctionCallFailed(*WHERE, "exit code 1"), id="exits"),
        ],
    )
    def test_a_failed_call_is_reported_with_step_and_revision(self, cause: KanisterError) -> None:
        stage = Stage({"f": passes}, runner=Raises(cause))
        composed = stage.compose(Step("s", "f"))
        error = composed.error
        assert isinstance(error, PipelineStepFailed)
        assert (error.step, error.function, error.revision, error.cause) == (*WHERE, cause)
        assert error.message.startswith('cannot run Composition pipeline step "s": ')
        assert error.message.endswith("(function f, revision f-1)")
        assert isinstance(error, TransientError) is isinstance(cause, TransientError)
        assert composed.outcomes[-1].worst == "Error"

    def test_a_transient_error_is_retried_and_then_returned(self) -> None:
        runner = Raises(FunctionUnavailable(*WHERE, "nobody there"))
        stage = Stage({"f": passes}, runner=runner)
        assert isinstance(stage.compose(Step("s", "f")).error, PipelineStepUnavailable)
        assert runner.calls > 1

    def test_a_step_may_name_the_reasons_for_retries(self) -> None:
        late = FunctionTimedOut(*WHERE, "it did not respond within 1 s")
        for on, calls in (((), 1), (("FunctionTimedOut",), 3)):
            runner = Raises(late)
            stage = Stage({"f": passes}, runner=runner)
            stage.compose(Step("s", "f", retry=Retry(limit=2, backoff="1s", on=on)))
            assert runner.calls == calls

    @pytest.mark.parametrize(
        ("obj", "path", "problem"),
        [
            pytest.param(config_map(name="Not_Valid"), "metadata.name", "invalid name", id="name"),
            pytest.param(
                {"kind": "A", "metadata": {}}, "apiVersion", "no apiVersion", id="no version"
            ),
            pytest.param({"apiVersion": "v1"}, "kind", "no kind", id="no kind"),
            pytest.param(config_map(labels=[1]), "metadata.labels", "not a map", id="labels"),
            pytest.param(
                config_map(name=3), "metadata.name", "not a string", id="a number as name"
            ),
            pytest.param(
                config_map(ownerReferences=[{"controller": True, "kind": "B", "name": "b"}]),
                "metadata.ownerReferences",
                "controlled by B b",
                id="another controller",
            ),
        ],
    )
    def test_an_invalid_resource_is_reported_with_its_step(
        self, obj: Data, path: str, problem: str
    ) -> None:
        stage = Stage({"a": passes, "f": adds("x", obj), "b": passes})
        error = stage.compose(*stage.steps("a", "f", "b")).error
        assert isinstance(error, ComposedResourceRefused)
        assert (error.step, error.function, error.revision) == ("f", "f", "f-1")
        assert error.path == f"desired.resources[x].resource.{path}"
        assert problem in error.message
        assert error.path in error.message

    def test_two_resources_for_the_same_object_are_refused(self) -> None:
        stage = Stage(
            {"a": adds("x", config_map(name="same")), "b": adds("y", config_map(name="same"))}
        )
        error = stage.compose(*stage.steps("a", "b")).error
        assert isinstance(error, ComposedResourceRefused)
        assert 'composed resources "x" and "y" are the same object: ConfigMap same' in error.message
        assert error.step == "b"

    def test_equal_resources_for_the_same_object_are_allowed_without_applying(
        self,
    ) -> None:
        steps = {"a": adds("x", config_map(name="same")), "b": adds("y", config_map(name="same"))}
        stage = Stage(steps, rules=ComposedRules(allows_duplicates=True))
        composed = stage.compose(*stage.steps("a", "b"))
        assert [resource.name for resource in composed.resources] == ["x", "y"]
        (notice,) = composed.notices
        assert (notice.reason, notice.function) == ("SameObject", "b")
        assert notice.facts == {"step": "b", "path": "desired.resources[y].resource.metadata.name"}
        differs = adds("y", {**config_map(name="same"), "data": {"k": "other"}})
        stage = Stage({**steps, "b": differs}, rules=ComposedRules(allows_duplicates=True))
        assert stage.compose(*stage.steps("a", "b")).error is not None

    @pytest.mark.parametrize("field", ["annotations", "labels"])
    def test_annotations_and_labels_are_ignored_unless_all_are_texts(self, field: str) -> None:
        steps = {
            "null": adds("x", config_map(name="x", **{field: {"a": None, "b": "c"}})),
            "number": adds("y", config_map(name="y", **{field: {"a": 3, "b": "c"}})),
        }
        stage = Stage(steps)
        composed = stage.compose(*stage.steps("null", "number"))
        x, y = (resource.object["metadata"][field] for resource in composed.resources)
        assert (x["a"], x["b"]) == ("", "c")
        assert not {"a", "b"} & set(y)
        (notice,) = composed.notices
        assert (notice.reason, notice.facts["step"]) == ("NoText", "number")
        assert notice.facts["path"] == f"desired.resources[y].resource.metadata.{field}[a]"

    def test_a_cluster_scoped_kind_in_a_namespaced_xr_is_refused(self) -> None:
        rules = ComposedRules(is_namespaced=lambda _, kind: kind != "ClusterRole")
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {}}
        stage = Stage({"a": adds("x", role)}, rules=rules)
        error = stage.compose(*stage.steps("a")).error
        assert isinstance(error, ComposedResourceRefused)
        assert "cannot apply cluster scoped composed resource" in error.message

    def test_roles_may_have_names_that_other_kinds_may_not(self) -> None:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
        stage = Stage({"a": adds("x", {**role, "metadata": {"name": "sys:x"}})})
        assert stage.compose(*stage.steps("a")).error is None

    def test_a_missing_secret_of_a_credential_is_reported(self) -> None:
        stage = Stage({"a": passes})
        error = stage.compose(Step("a", "a", credentials=(Credential("cloud", "n", "s"),))).error
        assert isinstance(error, CredentialMissing)
        assert (error.step, error.credential, error.secret) == ("a", "cloud", "n/s")

    def test_an_endless_requirements_loop_reports_its_last_rounds_and_results(self) -> None:
        def restless(request: Data) -> Data:
            count = len(stage.runner.calls)
            selector = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": f"n{count}"}
            results = [{"severity": "SEVERITY_WARNING", "message": "still looking"}]
            return passes(request, requirements={"resources": {"r": selector}}, results=results)

        stage = Stage({"a": restless})
        error = stage.compose(*stage.steps("a")).error
        assert isinstance(error, PipelineStepRefused)
        assert error.cause.reason == "RequirementsUnsettled"
        assert error.cause.message.endswith(
            "the last but one iteration required r: ConfigMap of v1 named n5; "
            "the last one required r: ConfigMap of v1 named n6; results: still looking"
        )
        assert len(stage.runner.calls) == 6

    @pytest.mark.parametrize(
        ("allowed", "is_there"),
        [
            pytest.param(None, False, id="no list"),
            pytest.param((), False, id="an empty list"),
            pytest.param((AllowedResource("v1", "Secret"),), True, id="listed"),
        ],
    )
    def test_a_secret_is_passed_only_if_the_composition_allows_it(
        self, allowed: tuple[AllowedResource, ...] | None, is_there: bool
    ) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}}
        selector = {"apiVersion": "v1", "kind": "Secret", "matchName": "s", "namespace": "n"}
        stage = Stage(
            {"a": lambda request: passes(request, requirements={"resources": {"s": selector}})},
            objects=[secret],
        )
        error = stage.compose(Step("a", "a", allowed=allowed)).error
        assert (error is None) is is_there
        if error is not None:
            assert error.reason == "PipelineStepFailed"
            assert "it may not require Secret of v1" in error.message


def test_remembered_requirements_are_fetched_before_the_first_call() -> None:
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": "c", "namespace": "n"}
    stage = Stage(
        {"a": lambda request: passes(request, requirements={"resources": {"c": selector}})},
        objects=[config_map(name="c", namespace="n")],
    )
    first = stage.compose(*stage.steps("a"))
    assert first.outcomes[0].calls == 2
    second = stage.compose(*stage.steps("a"), remembered=first.requirements)
    assert second.outcomes[0].calls == 1
    assert stage.runner.calls[-1].request.required_resources == {
        "c": {"items": [{"resource": config_map(name="c", namespace="n")}]}
    }
