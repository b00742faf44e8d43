"""Validation and generation of names, and stable run keys."""

from __future__ import annotations

import hashlib

from kanister_py.core.kube.names import (
    dns_label_problem,
    dns_subdomain_problem,
    generate_name,
    label_key_problem,
    label_value_problem,
    run_key,
    short_hash,
)


def test_validity_of_names() -> None:
    for good in ("a", "a-b", "0", "a" * 63):
        assert dns_label_problem(good) == ""
    for bad in ("", "A", "a.b", "-a", "a-", "a" * 64, "a\n"):
        assert dns_label_problem(bad)
    assert dns_subdomain_problem("a.b-c.d") == ""
    for bad in ("", "a..b", ".a", "a" * 254):
        assert dns_subdomain_problem(bad)


def test_validity_of_label_keys_and_values() -> None:
    for good in ("app", "example.org/app", "A_b.c-d"):
        assert label_key_problem(good) == ""
    for bad in ("", "/a", "a/", "a/b/c", "-a", "Example.org/a", "a" * 64):
        assert label_key_problem(bad)
    for good in ("", "a", "A_1.x"):
        assert label_value_problem(good) == ""
    for bad in ("a b", "-", "a" * 64):
        assert label_value_problem(bad)


def test_generated_name_is_a_valid_label() -> None:
    assert generate_name("job-", lambda signs: signs[0]) == "job-bbbbb"
    assert len(generate_name("x" * 100, lambda signs: signs[0])) == 63


def test_short_hash_separates_its_parts() -> None:
    assert short_hash("ab", "c") != short_hash("a", "bc")


def test_run_key_identifies_one_attempt_at_a_phase() -> None:
    want = hashlib.sha256(b"uid/0/2/1/pod").hexdigest()[:20]
    assert run_key("uid", 0, 2, 1, "pod") == want
    keys = {
        run_key(uid, action, phase, attempt, part)
        for uid in ("u", "v")
        for action in (0, 1)
        for phase in (None, 0, 1)
        for attempt in (1, 2)
        for part in ("", "pvc")
    }
    assert len(keys) == 48
