"""Cache with weights: the least recently used entries are dropped first."""

from __future__ import annotations

from kanister_py.weighted_cache import WeightedCache


def test_least_recently_used_entries_are_dropped() -> None:
    cache = WeightedCache[str, int](10)
    assert cache.put("a", 1, 4) == []
    assert cache.put("b", 2, 4) == []
    assert cache.get("a") == 1
    assert cache.put("c", 3, 6) == [4]
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert (cache.weight, len(cache)) == (10, 2)


def test_too_heavy_entry_is_not_stored_and_drops_no_other_entry() -> None:
    cache = WeightedCache[str, int](10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.put("a", 3, 11) == []
    assert (cache.get("a"), cache.get("b"), cache.weight) == (None, 2, 4)


def test_discarded_entries_have_no_weight() -> None:
    cache = WeightedCache[str, int](100)
    for number, key in enumerate("abc"):
        cache.put(key, number, 4)
    cache.discard("a")
    cache.discard("nothing")
    assert (len(cache), cache.weight) == (2, 8)
    cache.discard_all(lambda value: value == 1)
    assert (cache.get("b"), cache.get("c"), cache.weight) == (None, 2, 4)


def test_replaced_entry_counts_once() -> None:
    cache = WeightedCache[str, int](10)
    for value in range(5):
        cache.put("a", value, 4)
    assert (cache.get("a"), cache.weight, len(cache)) == (4, 4, 1)
