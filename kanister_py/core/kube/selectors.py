"""Label and field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import Unusable
from kanister_py.core.kube.names import label_key_problem, label_value_problem


class InvalidSelector(Unusable, reason="InvalidSelector"):
    """A string or map is not a valid selector."""

    wording = "Unable to parse selector {what!r}: {why}"


class Requirement(NamedTuple):
    """One condition on one label: `operator` is one of `in notin exists !exists gt lt`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in {"in", "notin"}:
            return (value in self.values) is (self.operator == "in")
        if self.operator in {"exists", "!exists"}:
            return (value is not None) is (self.operator == "exists")
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == "gt" else int(value) < bound

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!exists":
            return f"!{self.key}"
        if self.operator in {"gt", "lt"}:
            return f"{self.key}{'>' if self.operator == 'gt' else '<'}{self.values[0]}"
        if len(self.values) == 1 and self.operator == "in":
            return f"{self.key}={self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"


_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")


class LabelSelector(NamedTuple):
    """Requirements that must all match. An empty selector matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        present = labels or {}
        return all(requirement.matches(present) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


_TOKEN: Final = re.compile(r"==|=|!=|!|>|<|\(|\)|,|[^\s=!><(),]+")


@lru_cache(maxsize=1024)
def parse_label_selector(text: str) -> LabelSelector:
    """Parse the text form of a label selector: `app=db,tier in (a,b),!old`."""
    return LabelSelector(_LabelParser(text).parse())


def label_selector_of(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Parse a label selector in an object: `matchLabels` and `matchExpressions`."""
    if selector is None:
        return LabelSelector()
    if not isinstance(selector, Mapping):
        raise InvalidSelector(str(selector), "it must be a map")
    labels = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()
    if not isinstance(labels, Mapping):
        raise InvalidSelector(str(selector), "matchLabels must be a map")
    if not _is_list(expressions):
        raise InvalidSelector(str(selector), "matchExpressions must be a list")
    requirements = [Requirement(key, "in", (value,)) for key, value in sorted(labels.items())]
    requirements += [_requirement_of(expression, selector) for expression in expressions]
    return LabelSelector(tuple(requirements))


def _requirement_of(expression: Any, selector: Mapping[str, Any]) -> Requirement:
    def refusal(why: str) -> InvalidSelector:
        return InvalidSelector(str(selector), why)

    if not isinstance(expression, Mapping):
        raise refusal("matchExpressions must be maps")
    key, name = expression.get("key"), expression.get("operator")
    values = expression.get("values") or ()
    if not isinstance(key, str) or not key:
        raise refusal("key must be text")
    operator = _OPERATORS.get(name) if isinstance(name, str) else None
    if operator is None:
        raise refusal(f"{name!r} is not a valid label selector operator")
    if not _is_list(values) or not all(isinstance(value, str) for value in values):
        raise refusal("values must be a list of text")
    if (operator in {"in", "notin"}) != bool(values):
        need = "must not be set" if values else "must be set"
        raise refusal(f"values {need} for operator {name}")
    return Requirement(key, operator, tuple(values))


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!exists"}


class _LabelParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def parse(self) -> tuple[Requirement, ...]:
        if not self.tokens:
            return ()
        requirements = [self._requirement()]
        while self.at < len(self.tokens):
            self._expect(",")
            requirements.append(self._requirement())
        return tuple(sorted(requirements, key=lambda requirement: requirement.key))

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _expect(self, want: str) -> None:
        token = self._next()
        if token != want:
            raise InvalidSelector(self.text, f"found '{token}', expected: '{want}'")

    def _word(self, what: str, problem_with: Callable[[str], str]) -> str:
        word = self._next()
        if word in _SIGNS or (what == "key" and not word):
            raise InvalidSelector(self.text, f"found '{word}', expected: identifier")
        if why := problem_with(word):
            raise InvalidSelector(self.text, f"{what}: Invalid value: {word!r}: {why}")
        return word

    def _key(self) -> str:
        return self._word("key", label_key_problem)

    def _value(self, *ends: str) -> str:
        if self._peek() in ends:
            return ""
        return self._word("values", label_value_problem)

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), "!exists")
        key = self._key()
        sign = self._peek()
        if sign in {"", ","}:
            return Requirement(key, "exists")
        self._next()
        if sign in {"=", "==", "!="}:
            value = self._value("", ",")
            return Requirement(key, "notin" if sign == "!=" else "in", (value,))
        if sign in {"in", "notin"}:
            return Requirement(key, sign, self._values())
        if sign in {"<", ">"}:
            value = self._value()
            if not _INTEGER.fullmatch(value):
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise InvalidSelector(self.text, why)
            return Requirement(key, "gt" if sign == ">" else "lt", (value,))
        raise InvalidSelector(self.text, f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")

    def _values(self) -> tuple[str, ...]:
        self._expect("(")
        if self._peek() == ")":
            self._next()
            return ("",)
        values = [self._value(",", ")")]
        while self._peek() == ",":
            self._next()
            values.append(self._value(",", ")"))
        self._expect(")")
        return tuple(dict.fromkeys(values))


_SIGNS: Final = frozenset({"=", "==", "!=", "!", ">", "<", "(", ")", ","})


class FieldTerm(NamedTuple):
    """Condition on a field: it must have a value, or must not."""

    field: str
    value: str
    is_equal: bool = True


class FieldSelector(NamedTuple):
    """Terms that must all match. An empty selector matches everything."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, obj: Mapping[str, Any]) -> bool:
        return all(
            (field_text(obj, term.field) == term.value) is term.is_equal for term in self.terms
        )

    @property
    def name(self) -> str:
        """The required name, if there is exactly one, else an empty string."""
        names = [t.value for t in self.terms if t.field == "metadata.name" and t.is_equal]
        return names[0] if names else ""


@lru_cache(maxsize=1024)
def parse_field_selector(text: str) -> FieldSelector:
    """Parse a field selector: `metadata.name=db,status.phase!=Running`."""
    terms: list[FieldTerm] = []
    for part in re.findall(r"(?:[^,\\]|\\.)+", text, re.DOTALL):
        if not part.strip():
            continue
        match = _FIELD_TERM.fullmatch(part)
        if match is None:
            raise InvalidSelector(text, f"invalid selector: '{part}'; can't understand '{part}'")
        name, sign, value = match.groups()
        value = re.sub(r"\\([\\,=])", r"\1", value)
        terms.append(FieldTerm(name.strip(), value, sign != "!="))
    return FieldSelector(tuple(terms))


_FIELD_TERM: Final = re.compile(r"((?:[^=!\\]|\\.|!(?!=))*)(!=|==|=)(.*)", re.DOTALL)


def field_text(obj: Mapping[str, Any], path: str) -> str:
    """Return the value at a dotted path as text, as field selectors compare it."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            break
    if value is True or value is False:
        return "true" if value else "false"
    if value is None:
        return _FIELD_DEFAULTS.get(path, "")
    return str(value)


_FIELD_DEFAULTS: Final = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}

_SELECTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "events": (
        *(f"involvedObject.{field}" for field in ("kind", "namespace", "name", "uid")),
        *(f"involvedObject.{field}" for field in ("apiVersion", "resourceVersion", "fieldPath")),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "secrets": ("type",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers": ("status.replicas",),
    "jobs.batch": ("status.successful",),
    "services": ("spec.clusterIP", "spec.type"),
}


def unknown_fields(
    selector: FieldSelector, group_resource: str, also: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the fields of a selector that a resource does not support."""
    selectable = _SELECTABLE.get(group_resource, ())
    always = ("metadata.name", "metadata.namespace")
    return tuple(
        term.field for term in selector.terms if term.field not in (*always, *selectable, *also)
    )


Predicate = Callable[[Mapping[str, Any]], bool]


def matcher_of(labels: LabelSelector, fields: FieldSelector) -> Predicate | None:
    """Return a predicate for objects that match both selectors, or None if all match."""
    if not labels.requirements and not fields.terms:
        return None

    def passes(obj: Mapping[str, Any]) -> bool:
        return labels.matches(obj["metadata"].get("labels")) and fields.matches(obj)

    return passes
