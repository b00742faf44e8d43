"""Share of the composite resources: a replica keeps its own, and next to nothing of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.compositions.changes import Changes
from kanister_py.controller.compositions.part import Compositions
from kanister_py.controller.controller import Controller
from kanister_py.controller.machine.known_objects import Seen, Slim
from kanister_py.controller.machine.watch_cache import ObjectKey
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import conditions_of, name_of, status_of
from kanister_py.core.kube.resources import CONFIG_MAPS, GroupVersionResource
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.core.shards import shard_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions import test_claims as claims
from tests.controller.compositions.test_kinds import BUCKETS, bucket, composition, definition
from tests.controller.compositions.test_nested import outer_composition, outer_definition, store
from tests.controller.test_shards import Composing, hold_one_each, until

NAMES = [f"bucket-{number}" for number in range(12)]


def part_of(controller: Controller) -> Compositions:
    until(lambda: controller._parts is not None)
    assert controller._parts is not None
    return next(each for each in controller._parts.all if isinstance(each, Compositions))


def whole(seen: Seen, resource: GroupVersionResource) -> set[str]:
    return {name_of(each) for each in seen.all_of(resource)}


def slim(seen: Seen, resource: GroupVersionResource) -> list[KubeObject]:
    return [each for _, each in seen.watch(resource).items() if isinstance(each, Slim)]


def of_shards(composing: Composing, controller: Controller) -> set[str]:
    return {
        name_of(each)
        for each in composing.cluster.list(BUCKETS)
        if shard_of(each["metadata"]["uid"], 3) in controller.shards
    }


def composed_of(composing: Composing, names: set[str]) -> set[str]:
    return {
        name_of(each)
        for each in composing.cluster.list(CONFIG_MAPS)
        if each["metadata"]["labels"]["crossplane.io/composite"] in names
    }


def keep_only_their_own(composing: Composing, replicas: Sequence[Controller]) -> bool:
    def keeps_only_its_own(replica: Controller) -> bool:
        seen, own = part_of(replica).seen, of_shards(composing, replica)
        slim_ones = len(slim(seen, BUCKETS))
        return (
            whole(seen, BUCKETS) == own
            and whole(seen, CONFIG_MAPS) == composed_of(composing, own)
            and slim_ones == (len(NAMES) - len(own) if 0 in replica.shards else 0)
        )

    return all(map(keeps_only_its_own, replicas))


@pytest.fixture
def composing() -> Iterator[Composing]:
    with ExitStack() as stack:
        yield Composing(stack)


@pytest.fixture
def three(composing: Composing) -> list[Controller]:
    """Three replicas with a shard each, and the buckets composed; the first had them all."""
    replicas = [composing.start()[0]]
    composing.say(definition())
    composing.say(composition("red"))
    until(composing.is_served)
    for name in NAMES:
        composing.say(bucket(name))
    until(lambda: composing.addresses() == dict.fromkeys(NAMES, "red"))
    replicas += [composing.start()[0], composing.start()[0]]
    until(lambda: hold_one_each(*replicas))
    return replicas


def test_what_another_replica_composes_is_not_kept(
    composing: Composing, three: list[Controller]
) -> None:
    until(lambda: keep_only_their_own(composing, three))
    composing.say(composition("green"))
    until(lambda: composing.addresses() == dict.fromkeys(NAMES, "green"))
    until(lambda: keep_only_their_own(composing, three))


@pytest.mark.parametrize("end", [Controller.stop, Controller.kill])
def test_nothing_is_lost_when_a_replica_goes(
    composing: Composing, three: list[Controller], end: Callable[[Controller], None]
) -> None:
    gone, *left = three
    end(gone)
    # While nobody composes its share.
    composing.say(composition("green"))
    until(lambda: composing.addresses() == dict.fromkeys(NAMES, "green"))
    until(lambda: keep_only_their_own(composing, left))
    # What came back to where it had been before is followed as ever.
    came = composing.start()[0]
    until(lambda: hold_one_each(*left, came))
    composing.say(composition("blue"))
    until(lambda: composing.addresses() == dict.fromkeys(NAMES, "blue"))
    until(lambda: keep_only_their_own(composing, [*left, came]))
    for name in NAMES:
        composing.cluster.delete(BUCKETS, name, namespace="default")
    until(lambda: not composing.cluster.list(BUCKETS).items)
    until(lambda: not composing.cluster.list(CONFIG_MAPS).items)


def test_who_collects_revisions_knows_what_the_others_hold(
    composing: Composing, three: list[Controller]
) -> None:
    for name in NAMES:
        composing.say(bucket(name, compositionUpdatePolicy="Manual"))
    until(lambda: all(each["spec"]["crossplane"].get("compositionUpdatePolicy") == "Manual"
                      for each in composing.cluster.list(BUCKETS)))  # fmt: skip
    for colour in ("green", "blue"):
        before = len(composing.cluster.list(COMPOSITION_REVISIONS).items)
        composing.say(composition(colour))
        until(lambda: len(composing.cluster.list(COMPOSITION_REVISIONS).items) > before)  # noqa: B023 # it is asked for at once
    until(lambda: keep_only_their_own(composing, three))
    first = next(each for each in three if 0 in each.shards)
    held = next(iter(slim(part_of(first).seen, BUCKETS)))
    part = part_of(first)
    part._settings = part._settings._replace(keeps_revisions=1)
    # Its watches are as late as they like.
    removed: list[str] = []

    def is_collected() -> bool:
        removed.extend(part.collect_revisions())
        return bool(removed)

    until(is_collected)
    assert len(removed) == 1
    kept = {name_of(each) for each in composing.cluster.list(COMPOSITION_REVISIONS)}
    assert len(kept) == 2
    assert held["spec"]["crossplane"]["compositionRevisionRef"]["name"] in kept


def test_claims_hear_of_what_another_replica_composes(composing: Composing) -> None:
    replicas = [composing.start()[0] for _ in range(3)]
    until(lambda: hold_one_each(*replicas))
    composing.say({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    composing.say(claims.definition())
    composing.say(claims.composition("red"))
    until(lambda: is_served(composing.cluster, claims.CLAIMS))
    for name in NAMES:
        composing.say(claims.claim(name))
    until(lambda: claimed(composing.cluster) == dict.fromkeys(NAMES, "red"))
    composing.say(claims.composition("green"))
    until(lambda: claimed(composing.cluster) == dict.fromkeys(NAMES, "green"))
    for name in NAMES:
        composing.say(claims.claim(name, compositeDeletePolicy="Foreground"))
        composing.cluster.delete(claims.CLAIMS, name, namespace="shop")
    until(lambda: not composing.cluster.list(claims.CLAIMS, namespace="shop").items)
    assert not composing.cluster.list(claims.COMPOSITES).items


def test_a_composite_resource_hears_of_one_that_it_composes_elsewhere(
    composing: Composing,
) -> None:
    replicas = [composing.start()[0] for _ in range(3)]
    until(lambda: hold_one_each(*replicas))
    composing.say(outer_definition())
    composing.say(definition())
    composing.say(composition())
    composing.say(outer_composition())
    stores = GroupVersionResource("example.org", "v1alpha1", "xstores")
    until(lambda: is_served(composing.cluster, stores) and composing.is_served())
    for name in NAMES:
        composing.say(store(name))
    until(lambda: len(composing.addresses()) == len(NAMES))
    # What follows is made by the replica of the outer one, which sees the inner one whole.
    inner = composing.cluster.list(BUCKETS).items
    for each in inner:
        composing.cluster.patch(
            *(BUCKETS, name_of(each), {"spec": {"region": "us"}}), namespace="default"
        )
    until(lambda: {each["spec"]["region"] for each in composing.cluster.list(BUCKETS)} == {"eu"})


def test_a_kind_that_is_asked_for_by_labels_is_kept_whole() -> None:
    cluster, changes = MemoryCluster(clock=SystemClock()), []

    def keep(_resource: GroupVersionResource, obj: KubeObject) -> KubeObject | None:
        return obj if obj["metadata"]["labels"]["of"] == "us" else None

    seen = Seen(cluster, SystemClock(), lambda *change: changes.append(change), keep=keep)
    try:
        for name, of in (("ours", "us"), ("theirs", "them")):
            cluster.create(settings(name, of))
        seen.watch(CONFIG_MAPS)
        until(lambda: seen.has_synced(CONFIG_MAPS))
        assert whole(seen, CONFIG_MAPS) == {"ours"}
        found = seen.list(CONFIG_MAPS, "default", {"of": "them"})
        assert [name_of(each) for each in found] == ["theirs"]
        until(lambda: seen.has_synced(CONFIG_MAPS))
        assert whole(seen, CONFIG_MAPS) == {"ours", "theirs"}
        cluster.delete(CONFIG_MAPS, "theirs", namespace="default")
        until(lambda: any(change[3] is None for change in changes))
        assert not seen.list(CONFIG_MAPS, "default", {"of": "them"})
    finally:
        seen.close()


def test_what_is_kept_already_is_no_news_when_its_kind_is_listed_anew() -> None:
    cluster, names = MemoryCluster(clock=SystemClock()), []
    kept = {"us"}

    def keep(_resource: GroupVersionResource, obj: KubeObject) -> KubeObject | None:
        return obj if obj["metadata"]["labels"]["of"] in kept else None

    def hear(*change: Any) -> None:
        names.append(name_of(change[3]))

    seen = Seen(cluster, SystemClock(), hear, keep=keep)
    try:
        for name, of in (("ours", "us"), ("theirs", "them")):
            cluster.create(settings(name, of))
        seen.watch(CONFIG_MAPS)
        until(lambda: seen.has_synced(CONFIG_MAPS))
        assert names == ["ours"]
        kept.add("them")
        seen.list_anew(CONFIG_MAPS)
        until(lambda: seen.has_synced(CONFIG_MAPS))
        assert names == ["ours", "theirs"]
    finally:
        seen.close()


@pytest.mark.parametrize("is_claimed", [True, False], ids=["with a claim", "without one"])
def test_who_came_to_depend_on_what_another_replica_composes_hears_of_its_end(
    is_claimed: bool,
) -> None:
    names: list[str] = []

    class Heard:
        kind = None
        claim_resource = claims.CLAIMS

        def tell_dependents(self, _resource: Any, key: Any, *_states: Any) -> None:
            names.append(key.name)

        def __getattr__(self, _name: str) -> Any:
            return lambda *_arguments: False

        def of(self, _resource: GroupVersionResource) -> Any:
            return self

    heard: Any = Heard()
    changes = Changes(*[heard] * 7)
    spec = {"claimRef": {"namespace": "shop", "name": "orders"}} if is_claimed else {}
    kept = Slim(metadata={}, spec=spec)
    key = ObjectKey("", "theirs")
    changes.take(claims.COMPOSITES, key, None, kept)
    changes.take(claims.COMPOSITES, key, kept, kept)
    assert not names
    changes.take(claims.COMPOSITES, key, kept, None)
    assert names == ["theirs"]


def settings(name: str, of: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"of": of}},
    }


def is_served(cluster: MemoryCluster, resource: GroupVersionResource) -> bool:
    try:
        cluster.list(resource)
    except NotFound:
        return False
    return True


def claimed(cluster: MemoryCluster) -> Mapping[str, str]:
    return {
        name_of(each): str(status_of(each).get("address"))
        for each in cluster.list(claims.CLAIMS, namespace="shop")
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions_of(each))
    }
