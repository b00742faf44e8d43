"""Hand-written templates that cover all syntax and all functions.

A case is a template with one of the named data sets. Go's answers are recorded in a file
in this folder, so there are no expected outputs here.
"""

# ruff: noqa: E501, RUF001, W291 - a template is one line, with its spaces, as people write it

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

NOW = "2024-05-06T07:08:09.123456789Z"

SECRET = {
    "metadata": {"name": "creds", "namespace": "app", "labels": {"team": "<red>"}},
    "data": {"user": "YWRtaW4=", "key": "czNjcidldA==", "empty": "", "binary": "/wD+"},
    "type": "Opaque",
}
WORKLOAD = {
    "Name": "db",
    "Namespace": "app",
    "Pods": ["db-0", "db-1"],
    "Containers": [["main", "side"], ["main"]],
    "PersistentVolumeClaims": {"db-0": {"data-db-0": "/data"}, "db-1": {"data-db-1": "/data"}},
}

DATA: dict[str, Any] = {
    "none": None,
    "params": {
        "$params": {
            "StatefulSet": WORKLOAD,
            "Namespace": {"Name": "app", "Namespace": "app"},
            "ArtifactsIn": {
                "dump": {"keyValue": {"path": "s3://b/a k", "size": "12"}, "kopiaSnapshot": "k1"},
                "bare": {},
            },
            "ConfigMaps": {
                "conf": {"metadata": {"name": "conf"}, "data": {"a.yaml": "x: 1\ny: 2\n", "b": ""}}
            },
            "Secrets": {"creds": SECRET},
            "Time": NOW,
            "Profile": {
                "Location": {
                    "type": "s3Compliant",
                    "bucket": "bkt",
                    "endpoint": "http://s3.local:9000",
                    "prefix": "pre/fix",
                    "region": "",
                },
                "Credential": {
                    "Type": "keyPair",
                    "KeyPair": {"ID": "AK<&>ID", "Secret": "s3cr'et"},
                    "Secret": None,
                    "KopiaServerSecret": None,
                },
                "SkipSSLVerify": False,
            },
            "Options": {"x": "1", "name": "Alice", "empty": "", "true": "true", "dash-ed": "d"},
            "Object": {
                "apiVersion": "v1",
                "kind": "Demo",
                "metadata": {"name": "demo", "labels": {"app": "demo", "a/b": "c"}},
                "spec": {
                    "replicas": 2,
                    "ratio": 0.5,
                    "big": 12345678901,
                    "paused": False,
                    "list": [1, "two", 3.5, None, True],
                    "none": None,
                    "deep": {"er": {"est": ["a", {"b": "c"}]}},
                },
            },
            "Phases": {
                "first": {
                    "Secrets": {"creds": SECRET},
                    "ConfigMaps": {},
                    "Output": {"id": "snap-1", "n": 3, "f": 1.25, "ok": True, "list": ["p", "q"]},
                },
                "silent": {},
            },
            "DeferPhase": {"Output": {"left": "over"}},
            "PodLabels": {"l": "1"},
            "PodAnnotations": {"a": "1"},
        }
    },
    "bare": {"$params": {}},
    "map": {
        "text": "hello world",
        "blank": "",
        "int": {"$int": 7},
        "zero": {"$int": 0},
        "neg": {"$int": -3},
        "i64": 42,
        "f": {"$float": "3.75"},
        "whole": {"$float": "100000000"},
        "huge": {"$float": "1e21"},
        "tiny": {"$float": "0.00001234"},
        "inf": {"$float": "+Inf"},
        "nan": {"$float": "NaN"},
        "yes": True,
        "no": False,
        "nil": None,
        "list": ["c", "a", "b", "a"],
        "mixed": [1, "1", {"$float": "1.5"}, None, True, ["x"], {"k": "v"}],
        "none": [],
        "dict": {"b": 2, "a": 1, "c": {"d": "e"}},
        "nodict": {},
        "texts": {"$texts": ["x", "y", "z"]},
        "ints": {"$ints": [3, 1, 2]},
        "textmap": {"$textmap": {"k2": "v2", "k1": "v1"}},
        "bytes": {"$bytes": "aGVsbG8="},
        "binary": {"$bytes": "/wBhgA=="},
        "bytesmap": {"$bytesmap": {"p": "c2VjcmV0"}},
        "time": {"$time": "2021-03-04T05:06:07.089Z"},
        "html": "<a href=\"x\">Tom & 'Jerry'</a>",
        "unicode": "héllo wörld ß Ǆ 日本 🎉",
        "lines": "first\nsecond\r\n\tthird\n",
        "quotes": 'it\'s "quoted" \\ back`tick`',
        "key with space": "spaced",
    },
}


@dataclass(frozen=True, slots=True)
class Case:
    """A template, its data, and the handling of missing keys."""

    template: str
    data: str = "map"
    missing_key: str = "error"
    now: str = ""


SYNTAX_PARAMS = r"""
plain text
{{ .Options.x }}
{{ .Options.missing }}
{{ .Options.missing | default "d" }}
{{ index .Options "missing" }}
{{ index .Options "x" }}
{{ if index .Options "missing" }}yes{{ else }}no{{ end }}
{{ index .Options "dash-ed" }}
{{ .Options.dash-ed }}
{{ .Options }}
{{ .Time }}
{{ .Foo }}
{{ .foo }}
{{ .Options.x.y }}
{{ .StatefulSet.Name }}
{{ .StatefulSet.Foo }}
{{ .StatefulSet.Pods }}
{{ index .StatefulSet.Pods 0 }}
{{ index .StatefulSet.Pods 1 }}
{{ index .StatefulSet.Pods 2 }}
{{ index .StatefulSet.Pods -1 }}
{{ index .StatefulSet.Pods "0" }}
{{ index .StatefulSet.Pods 1.5 }}
{{ index .StatefulSet.Pods nil }}
{{ index .StatefulSet.Containers 0 }}
{{ index .StatefulSet.Containers 0 1 }}
{{ index (index .StatefulSet.Containers 0) 0 }}
{{ index .StatefulSet.Containers 1 1 }}
{{ index .StatefulSet.PersistentVolumeClaims "db-0" }}
{{ index .StatefulSet.PersistentVolumeClaims "db-0" "data-db-0" }}
{{ index .StatefulSet.PersistentVolumeClaims "db-9" "data-db-0" }}
{{ .StatefulSet.PersistentVolumeClaims }}
{{ range .StatefulSet.Pods }}[{{ . }}]{{ end }}
{{ range $i, $pod := .StatefulSet.Pods }}{{ $i }}={{ $pod }} {{ end }}
{{ range $pod, $claims := .StatefulSet.PersistentVolumeClaims }}{{ $pod }}{{ range $c, $p := $claims }}:{{ $c }}@{{ $p }}{{ end }};{{ end }}
{{ .Deployment }}
{{ .Deployment.Name }}
{{ .Deployment.Pods }}
{{ index .Deployment.Pods 0 }}
{{ if .Deployment }}deployment{{ else if .StatefulSet }}statefulset{{ else }}other{{ end }}
{{ with .Deployment }}{{ .Name }}{{ else with .StatefulSet }}{{ .Name }}!{{ end }}
{{ with .Deployment }}{{ .Name }}{{ else }}none{{ end }}
{{ .PVC.Name }}
{{ .Namespace.Name }}/{{ .Namespace.Namespace }}
{{ .Secrets.creds.Data.user }}
{{ .Secrets.creds.Data.user | toString }}
{{ index .Secrets.creds.Data "user" | toString }}
{{ index .Secrets.creds.Data "nope" | toString }}
{{ .Secrets.creds.Data.nope }}
{{ .Secrets.nope.Data.user }}
{{ .Secrets.creds.Name }} {{ .Secrets.creds.Namespace }} {{ .Secrets.creds.Type }} {{ .Secrets.creds.Labels.team }}
{{ .Secrets.creds.ObjectMeta.Name }}
{{ .Secrets.creds.Nope }}
{{ .Secrets.creds.StringData }}
{{ .Secrets.creds.StringData.a }}
{{ .Secrets.creds.Data.key | toString | b64enc }}
{{ .Secrets.creds.Data.key | b64enc }}
{{ .Secrets.creds.Data.empty }}
{{ .Secrets.creds.Data.binary }}
{{ .Secrets.creds.Data.binary | toString | quote }}
{{ len .Secrets.creds.Data }}
{{ range $k, $v := .Secrets.creds.Data }}{{ $k }}={{ $v | toString }};{{ end }}
{{ .ConfigMaps.conf.Data }}
{{ index .ConfigMaps.conf.Data "a.yaml" }}
{{ index .ConfigMaps.conf.Data "a.yaml" | nindent 4 }}
{{ .ConfigMaps.conf.Data.b }}
{{ .ConfigMaps.conf.Data.c }}
{{ .ArtifactsIn.dump.KeyValue.path }}
{{ .ArtifactsIn.dump.KopiaSnapshot }}
{{ .ArtifactsIn.dump.KeyValue.nope }}
{{ .ArtifactsIn.nope.KeyValue.path }}
{{ .ArtifactsIn.bare.KeyValue }}
{{ .ArtifactsIn.bare.KeyValue.a }}
{{ .ArtifactsIn.dump }}
{{ .ArtifactsIn }}
{{ toJson .ArtifactsIn }}
{{ toJson .Profile }}
{{ toPrettyJson .Profile }}
{{ toJson .Secrets }}
{{ toJson .StatefulSet }}
{{ toJson .Object }}
{{ toJson .Phases.first.Output }}
{{ toJson .Deployment }}
{{ toJson .Options }}
{{ .Profile.Location.Bucket }} {{ .Profile.Location.Type }} {{ .Profile.Credential.KeyPair.ID }}
{{ .Profile.Credential.Secret }}
{{ .Profile.Credential.Secret.Data }}
{{ .Profile.Credential.Secret.Name }}
{{ .Profile.SkipSSLVerify }}
{{ .Profile.Location }}
{{ .Profile.Credential.KeyPair }}
{{ if .Profile }}with{{ else }}without{{ end }}
{{ if eq .Profile.Location.Type "s3Compliant" }}s3{{ end }}
{{ if eq .Profile.Location.Type "gcs" "s3Compliant" }}s3{{ end }}
{{ eq .Profile.Location.Type .Profile.Credential.Type }}
{{ .Object.metadata.name }}
{{ .Object.metadata.nope }}
{{ .Object.metadata.nope.more }}
{{ .Object.spec.none }}
{{ .Object.spec.none.more }}
{{ .Object.spec.replicas.more }}
{{ .Object.spec.replicas }} {{ .Object.spec.ratio }} {{ .Object.spec.big }} {{ .Object.spec.paused }}
{{ .Object.spec.list }}
{{ .Object.spec.deep }}
{{ index .Object "spec" "deep" "er" "est" 1 "b" }}
{{ index .Object "spec" "nope" }}
{{ index .Object "spec" "nope" "more" }}
{{ index .Object "nope" "more" }}
{{ index .Object.metadata.labels "a/b" }}
{{ .Object }}
{{ printf "%v|%+v|%T" .Object.spec .Object.spec.list .Object.spec.replicas }}
{{ add .Object.spec.replicas 1 }}
{{ .Phases.first.Output.id }}
{{ .Phases.first.Output.nope }}
{{ .Phases.nope.Output.id }}
{{ .Phases.first.Nope }}
{{ .Phases.silent.Output }}
{{ .Phases.silent.Output.id }}
{{ .Phases.first.Secrets.creds.Data.user | toString }}
{{ range .Phases.first.Output.list }}-{{ . }}{{ end }}
{{ .DeferPhase.Output.left }}
{{ .DeferPhase.Output.right }}
{{ .PodOverride }}
{{ .PodOverride.a }}
{{ .PodLabels.l }}{{ .PodAnnotations.a }}
{{ $ }}
{{ $.Options.x }}{{ with .StatefulSet }}{{ .Name }}{{ $.Options.name }}{{ end }}
{{ (index .StatefulSet.Pods 0) }}
{{ (index .StatefulSet.Pods 0).Foo }}
{{ (index .ArtifactsIn "dump").KeyValue.path }}
{{ (index .ArtifactsIn "nope").KeyValue.path }}
{{ (index .Phases "first").Output.id }}
{{ (index .Phases "nope").Output.id }}
{{ (.Phases.first).Output.id }}
{{ toDate "2006-01-02T15:04:05.999999999Z07:00" .Time | date "2006-01-02" }}
{{ toDate "2006-01-02T15:04:05.999999999Z07:00" .Time | date "2006-01-02T15-04-05" }}
{{ .Time | toDate "nonsense" | date "2006-01-02" }}
{{ hasKey .Options "x" }}
{{ hasKey .Object "kind" }}
{{ keys .Options }}
{{ kindOf .Options }} {{ kindOf .Profile }} {{ kindOf .Secrets.creds }} {{ kindOf .Secrets.creds.Data.user }}
{{ typeOf .Options }} {{ typeOf .Profile }} {{ typeOf .Secrets.creds }} {{ typeOf .Phases }} {{ typeOf .Object }} {{ typeOf .StatefulSet.Containers }}
{{ typeOf .Profile.Location.Type }} {{ typeOf .Time }} {{ typeOf .Object.spec.none }} {{ typeOf .Deployment }} {{ typeOf . }}
{{ typeIs "string" .Time }} {{ typeIsLike "param.Profile" .Profile }} {{ typeIs "*param.Profile" .Profile }}
{{ empty .Deployment }} {{ empty .Options }} {{ empty .PodOverride }} {{ empty .Profile.Location }}
{{ default "d" .Deployment }} {{ default "d" .Profile.Location.Region }}
{{ .StatefulSet.Pods | join "," }} {{ .StatefulSet.Pods | first }} {{ .StatefulSet.Pods | last }}
{{ join "-" .Secrets.creds.Data.user }}
{{ .Options.name | upper | quote }}
{{ quote .Options.x .Time .Deployment .Object.spec.replicas .Secrets.creds.Data.user }}
{{ squote .Options.x .Object.spec.none .Object.spec.replicas .Secrets.creds.Data.user }}
{{ cat .Options.x .Object.spec.none "z" .Object.spec.ratio }}
{{ len .Options }} {{ len .StatefulSet.Pods }} {{ len .Time }} {{ len .Object.spec.list }}
{{ len .Deployment }}
{{ len .Profile }}
{{ len 3 }}
{{ range .Deployment }}x{{ end }}
{{ range .Profile }}x{{ end }}
{{ range .Time }}x{{ end }}
{{ range 3 }}{{ . }}{{ end }}
{{ range $i := 3 }}{{ $i }}{{ end }}
{{ range $i, $j := 3 }}{{ $i }}{{ end }}
{{ range .Object.spec.none }}x{{ else }}none{{ end }}
{{ range .Object.spec }}x{{ end }}
{{ range $k, $v := .Object.metadata.labels }}{{ $k }}={{ $v }},{{ end }}
{{ .StatefulSet.Name.Foo }}
{{ .StatefulSet.Pods.Foo }}
{{ .Options.x | .Options.name }}
{{ "a" | .StatefulSet }}
{{ .StatefulSet "a" }}
{{ .Options.x "a" }}
{{ .StatefulSet.Name 1 2 }}
{{ deepEqual .Options .PodLabels }} {{ deepEqual .PodLabels .PodLabels }} {{ deepEqual .PodLabels .PodAnnotations }}
{{ eq .Options.x "1" }} {{ eq .Object.spec.replicas 2 }} {{ ne .Options.x "1" }}
{{ eq .Object.spec.replicas "2" }}
{{ eq .Options .Options }}
{{ eq .Deployment nil }}
{{ eq .Object.spec.none nil }}
{{ lt .Object.spec.replicas 3 }} {{ ge .Object.spec.ratio 0.5 }}
{{ lt .Object.spec.replicas 2.5 }}
{{ not .Deployment }} {{ and .Profile .Options.x }} {{ or .Deployment .Options.name }}
{{ slice .StatefulSet.Pods 1 }} {{ slice .StatefulSet.Pods 0 1 }}
{{ slice .Time 0 4 }}
{{ html .Profile.Credential.KeyPair.ID }} {{ js .Profile.Credential.KeyPair.Secret }} {{ urlquery .ArtifactsIn.dump.KeyValue.path }}
{{ print .Options.x .Object.spec.replicas 1 2 "a" "b" 3 }}{{ println .Options.x 1 }}
{{ .Secrets.creds.Immutable }}
{{ toString .Secrets.creds.Immutable }}
{{ .Secrets.creds.CreationTimestamp.IsZero }}
{{ .Object.spec.list | toStrings | join "," }}
{{ .Options.x | atoi | add 1 }}
{{ dict "a" .Options.x | toJson }}
{{ merge (dict "a" 1) .Object.metadata.labels | toJson }}
{{ merge (dict "a" 1) .Options | toJson }}
{{ .Object.spec | deepCopy | toJson }}
{{ pick .Object "kind" | toJson }} {{ omit .Object "spec" "metadata" | toJson }}
{{ .Phases }}
{{ range $name, $phase := .Phases }}{{ $name }}: {{ $phase.Output }};{{ end }}
{{ ternary "a" "b" .Profile.SkipSSLVerify }}
{{ ternary "a" "b" .Options.x }}
{{ .Namespace.Name | printf "%s-%d" "x" }}
"""

SYNTAX_MAP = r"""
{{/* a comment */}}x
{{- /* trimmed */ -}} x
a {{- .text -}} b
a {{- /* c */ -}} b
a {{ .text -}}   b
a   {{- .text }} b
a {{-.text}} b
a {{.text -}} {{- .text}} b
{{- 3 -}}
{{ -3 }}
{{- -3 -}}
{{"quoted \"text\" \n\t\x41\u00e9\U0001F389\101"}}
{{`raw \n text`}}
{{'a'}}
{{'\n'}} {{'\''}} {{'é'}}
{{ 'ab' }}
{{ '' }}
{{ 1 }} {{ -1 }} {{ +1 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 017 }} {{ 1_000 }} {{ 1e3 }} {{ 1.5 }} {{ .5 }} {{ 1. }} {{ 0x1p4 }} {{ 1e100 }}
{{ 1i }} {{ 2.5i }} {{ 1+2i }}
{{ 9223372036854775807 }}
{{ 9223372036854775808 }}
{{ 18446744073709551616 }}
{{ 1e1000 }}
{{ 3x }}
{{ 08 }}
{{ 1__0 }}
{{ true }} {{ false }}
{{ nil }}
{{ nil | print }}
{{ print nil }}
{{ . }}
{{ .text }}
{{ .  }}
{{ .missing }}
{{ .dict.a }} {{ .dict.c.d }} {{ .dict.c.missing }}
{{ .dict.c.d.e }}
{{ .text.more }}
{{ .nil }}
{{ .nil.more }}
{{ .list.more }}
{{ .int.more }}
{{ $x := 1 }}{{ $x }}
{{ $x := 1 }}{{ $x = 2 }}{{ $x }}
{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}
{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ end }}{{ $x }}
{{ $x := .dict }}{{ $x.a }} {{ $x.c.d }}
{{ $x }}
{{ $x = 1 }}
{{ $x := }}
{{ $ := 1 }}{{ $ }}
{{ $x := 1 | add 2 }}{{ $x }}
{{ $x, $y := .list }}
{{ $é := 1 }}{{ $é }}
{{ if .yes }}a{{ end }}
{{ if .no }}a{{ end }}
{{ if .no }}a{{ else }}b{{ end }}
{{ if .no }}a{{ else if .yes }}b{{ else }}c{{ end }}
{{ if .no }}a{{ else if .no }}b{{ else if .no }}c{{ else }}d{{ end }}
{{ if $x := .int }}{{ $x }}{{ end }}
{{ if $x := .zero }}{{ $x }}{{ else }}zero {{ $x }}{{ end }}
{{ if .missing }}a{{ end }}
{{ if }}a{{ end }}
{{ if .yes }}a
{{ if .yes }}a{{ else }}b{{ else }}c{{ end }}
{{ if .yes }}a{{ else if .no }}b{{ else }}c{{ else }}d{{ end }}
{{ end }}
{{ else }}
{{ if .blank }}1{{ end }}{{ if .zero }}2{{ end }}{{ if .nil }}3{{ end }}{{ if .none }}4{{ end }}{{ if .nodict }}5{{ end }}{{ if .f }}6{{ end }}{{ if .nan }}7{{ end }}{{ if .time }}8{{ end }}{{ if .bytes }}9{{ end }}
{{ with .dict }}{{ .a }}{{ end }}
{{ with .nodict }}a{{ else }}b{{ end }}
{{ with $x := .dict }}{{ $x.a }}{{ .b }}{{ end }}
{{ with .blank }}a{{ else with .text }}{{ . }}{{ else }}c{{ end }}
{{ with .blank }}a{{ else with .zero }}{{ . }}{{ else }}c{{ end }}
{{ with .text }}{{ . }}{{ $.int }}{{ end }}
{{ range .list }}{{ . }}{{ end }}
{{ range $v := .list }}{{ $v }}{{ end }}
{{ range $i, $v := .list }}{{ $i }}{{ $v }}{{ end }}
{{ range $i, $v := .list }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ if eq $i 3 }}{{ break }}{{ end }}{{ $v }}{{ end }}
{{ range .none }}a{{ else }}b{{ end }}
{{ range .nil }}a{{ else }}b{{ end }}
{{ range .nodict }}a{{ else }}b{{ end }}
{{ range .dict }}{{ . }};{{ end }}
{{ range $k, $v := .dict }}{{ $k }}={{ $v }};{{ end }}
{{ range $k, $v := .textmap }}{{ $k }}={{ $v }};{{ end }}
{{ range .text }}{{ . }}{{ end }}
{{ range .yes }}{{ . }}{{ end }}
{{ range .f }}{{ . }}{{ end }}
{{ range .int }}{{ . }}{{ end }}
{{ range .i64 }}{{ . }}{{ end }}
{{ range .zero }}a{{ else }}b{{ end }}
{{ range .neg }}a{{ else }}b{{ end }}
{{ range $i, $c := .bytes }}{{ $i }}:{{ $c }} {{ end }}
{{ range .mixed }}[{{ . }}]{{ end }}
{{ range .ints }}{{ . }}{{ end }}{{ range .texts }}{{ . }}{{ end }}
{{ $x := "a" }}{{ range .list }}{{ $x = . }}{{ end }}{{ $x }}
{{ $i := 9 }}{{ $v := 9 }}{{ range $i, $v = .list }}{{ end }}{{ $i }}{{ $v }}
{{ range $i, $v := .list }}{{ end }}{{ $i }}
{{ range .list }}{{ range $.ints }}{{ . }}{{ end }}{{ . }}{{ end }}
{{ range .list }}{{ else }}{{ break }}{{ end }}
{{ break }}
{{ continue }}
{{ range .list }}{{ define "x" }}{{ break }}{{ end }}{{ end }}
{{ range .list }}{{ if true }}{{ break }}{{ end }}{{ . }}{{ end }}end
{{ range .list }}{{ with . }}{{ continue }}{{ end }}{{ . }}{{ end }}end
{{ break 1 }}
{{ define "a" }}[{{ . }}]{{ end }}{{ template "a" }}{{ template "a" .text }}
{{ template "a" .text }}{{ define "a" }}[{{ . }}]{{ end }}
{{ template "missing" }}
{{ template }}
{{ template a }}
{{ template "a" 1 2 }}{{ define "a" }}{{ end }}
{{ define "a" }}1{{ end }}{{ define "a" }}2{{ end }}{{ template "a" }}
{{ define "a" }}{{ end }}{{ define "a" }}2{{ end }}{{ template "a" }}
{{ define "a" }}2{{ end }}{{ define "a" }} {{ end }}{{ template "a" }}
{{ block "b" .text }}<{{ . }}>{{ end }}
{{ block "b" .text }}<{{ . }}>{{ end }}{{ template "b" 1 }}
{{ block "b" }}x{{ end }}
{{ define "a" }}{{ $x }}{{ end }}
{{ $x := 1 }}{{ define "a" }}{{ $x }}{{ end }}
{{ define "a" }}{{ $ }}{{ end }}{{ template "a" 5 }}
{{ define "a" }}{{ if . }}{{ . }}{{ template "a" (rest .) }}{{ end }}{{ end }}{{ template "a" .list }}
{{ define "a" }}{{ .missing }}{{ end }}{{ template "a" . }}
{{ define "a" }}{{ fail "no" }}{{ end }}x{{ template "a" . }}
{{ if true }}{{ define "a" }}{{ end }}{{ end }}
{{ define a }}{{ end }}
{{ define "a" "b" }}{{ end }}
{{ (.dict).a }} {{ (index .dict "c").d }} {{ (dict "k" (list 1 2)).k }}
{{ (1) }} {{ ((1)) }}
{{ (.dict).missing }}
{{ (1).a }}
{{ ("a").b }}
{{ () }}
{{ (1 }}
{{ 1) }}
{{ .text | upper | lower | printf "%s!" }}
{{ .text | printf "%s-%s" "a" }}
{{ 1 | 2 }}
{{ .text | "a" }}
{{ .text | .int }}
{{ | upper }}
{{ .text | }}
{{ .text || upper }}
{{ unknown }}
{{ unknown .text }}
{{ .text | unknown }}
{{ if unknown }}{{ end }}
{{ Upper .text }}
{{ upper }}
{{ upper .text .text }}
{{ upper 1 }}
{{ upper .nil }}
{{ upper nil }}
{{ upper .list }}
{{ upper true }}
{{ repeat "3" "a" }}
{{ repeat 1.0 "a" }}
{{ repeat 1.5 "a" }}
{{ repeat .f "a" }}
{{ repeat .i64 "a" }}
{{ repeat .int "a" }}
{{ repeat -1 "a" }}
{{ repeat 2 .bytes }}
{{ trunc 5 .i64 }}
{{ until .i64 }}
{{ until "3" }}
{{ until true }}
{{ ternary 1 2 3 }}
{{ ternary 1 2 .int }}
{{ hasKey .list "a" }}
{{ hasKey .textmap "k1" }}
{{ hasKey nil "a" }}
{{ dict }}
{{ 1 2 }}
{{ .text .int }}
{{ "a" "b" }}
{{ nil 1 }}
{{ true 1 }}
{{ $x := 1 }}{{ $x 2 }}
{{ .text 1 }}
{{ .Text }}
{{ .key with space }}
{{ index . "key with space" }}
{{ .a-b }}
{{ a.b }}
{{ .a..b }}
{{ .. }}
{{ .1 }}
{{ .text. }}
{{ "unterminated }}
{{ `unterminated }}
{{ 'a }}
{{ "a
b" }}
{{ `a
b` }}
{{ .text
}}
{{
.text
}}
{{ add
1
2 }}
{{ /* not at the start */ }}
{{/* unclosed
{{/* a */ .text }}
{{ .text /* b */ }}
{{ .text
{{
{{}}
{{ }}
}}
{{ # }}
{{ @ }}
{{ ! }}
{{ a & b }}
{{ .text ; }}
{{ "a" , "b" }}
{{ { }}
{{ .text } }}
{{ \ }}
{{ [1] }}
{{ 1 + 2 }}
{{ "\q" }}
{{ "\u00" }}
{{ not }}
{{ and }}
{{ or }}
{{ and .yes }} {{ and .yes .int }} {{ and .no .missing }} {{ and .yes .blank .text }} {{ and 1 2 3 }}
{{ or .no }} {{ or .no .int }} {{ or .yes .missing }} {{ or .blank .zero .nil }} {{ or 0 "" 3 }}
{{ and .yes .missing }}
{{ or .no .missing }}
{{ not .yes }} {{ not .no }} {{ not .nil }} {{ not .list }} {{ not 0 }} {{ not "" }}
{{ not 1 2 }}
{{ len .text }} {{ len .list }} {{ len .dict }} {{ len .unicode }} {{ len .bytes }} {{ len .none }} {{ len .textmap }}
{{ len .int }}
{{ len .nil }}
{{ len nil }}
{{ len }}
{{ len .text .text }}
{{ index .list 0 }} {{ index .list .int }}
{{ index .list }}
{{ index .dict "a" }} {{ index .dict "zz" }} {{ index .dict "c" "d" }} {{ index .dict "c" "zz" }}
{{ index .dict 1 }}
{{ index .dict nil }}
{{ index .textmap "k1" }}{{ index .textmap "zz" }}
{{ index .textmap 1 }}
{{ index .text 0 }}
{{ index .text 100 }}
{{ index .unicode 1 }}
{{ index .bytes 0 }}
{{ index .int 0 }}
{{ index .nil 0 }}
{{ index nil }}
{{ index }}
{{ index .mixed 5 0 }} {{ index .mixed 6 "k" }} {{ index .mixed 0 }} {{ index .mixed 3 }}
{{ index .mixed 3 1 }}
{{ index .ints 1 }} {{ index .texts 2 }}
{{ index .list 4 }}
{{ index .list -1 }}
{{ index .list "a" }}
{{ index .list nil }}
{{ index .list 1.0 }}
{{ index .list 1.5 }}
{{ index .list true }}
{{ index .list 0 0 }}
{{ slice .list }} {{ slice .list 1 }} {{ slice .list 1 3 }} {{ slice .none 0 }}
{{ slice .list 3 1 }}
{{ slice .list 1 9 }}
{{ slice .list -1 }}
{{ slice .text 1 }}
{{ slice .int 1 }}
{{ slice .texts 1 2 }} {{ slice .ints 1 }} {{ slice .bytes 1 3 }}
{{ slice .list "1" "2" }}
{{ slice }}
{{ print }}{{ println }}
{{ print 1 2 }} {{ print "a" "b" }} {{ print 1 "a" 2 }} {{ print .nil .nil }} {{ print "a" 1 2 "b" .list }}
{{ println 1 "a" .nil .list }}
{{ print .dict .textmap .bytes .time .f .huge .tiny .whole .nan .inf }}
{{ html .html }} {{ html .text .int }} {{ html .nil }} {{ html }} {{ html .bytes }} {{ html .list }}
{{ js .html }} {{ js .quotes }} {{ js .unicode }} {{ js .lines }}
{{ urlquery .html }} {{ urlquery .unicode }} {{ urlquery "a b+c&d=e/f?g" 1 }}
{{ call .text }}
{{ call }}
{{ call nil }}
{{ call .nil }}
{{ eq 1 1 }} {{ eq 1 2 }} {{ eq "a" "a" }} {{ eq 1 2 3 1 }} {{ eq .int 7 }} {{ eq .i64 42 }} {{ eq .f 3.75 }} {{ eq .yes true }}
{{ eq 1 }}
{{ eq }}
{{ eq 1 "1" }}
{{ eq 1 1.0 }}
{{ eq .list .list }}
{{ eq .dict .dict }}
{{ eq .list "a" }}
{{ eq "a" .list }}
{{ eq .nil .nil }}
{{ eq .nil nil }}
{{ eq nil .nil }}
{{ eq nil nil }}
{{ eq .nil 1 }}
{{ eq 1 .nil }}
{{ eq .text .nil }}
{{ eq .yes 1 }}
{{ eq .bytes "hello" }}
{{ eq .time .time }}
{{ ne 1 2 }} {{ ne "a" "a" }}
{{ ne 1 "a" }}
{{ ne .list .list }}
{{ ne 1 2 3 }}
{{ lt 1 2 }} {{ lt 2 1 }} {{ lt "a" "b" }} {{ lt 1.5 2.5 }} {{ lt .int .i64 }} {{ le 1 1 }} {{ gt 2 1 }} {{ ge 1 1 }} {{ ge 1 2 }}
{{ lt 1 "a" }}
{{ lt 1 1.5 }}
{{ lt true false }}
{{ lt .list .list }}
{{ lt .nil 1 }}
{{ gt .nil 1 }}
{{ le .yes .no }}
{{ ge "a" 1 }}
{{ lt 1 }}
{{ gt }}
{{ print (and (or .no .text) (not .no)) }}
{{ $x := dict "a" 1 }}{{ $x.a }}{{ $x.b }}
{{ $x := dict "a" 1 }}{{ range $k, $v := $x }}{{ $k }}{{ $v }}{{ end }}
{{ $x := .list }}{{ len $x }}{{ index $x 0 }}
{{ $x := nil }}
{{ $x := .nil }}{{ $x }}
{{ $x := .missing }}{{ $x }}
text with }} inside and { single { braces } }
{{"{{"}} {{"}}"}} {{`{{ .x }}`}}
{ { .text } }
{{{ .text }}}
{{{{ .text }}}}
{{ .text }}{{ .int }}{{ .blank }}|
{{ fail "stop here" }}
{{ fail .nil }}
{{ if fail "x" }}{{ end }}
before {{ fail "x" }} after
{{ .list }} {{ .mixed }} {{ .none }} {{ .dict }} {{ .nodict }} {{ .texts }} {{ .ints }} {{ .textmap }}
{{ .bytes }} {{ .binary }} {{ .bytesmap }} {{ .time }}
{{ .int }} {{ .i64 }} {{ .f }} {{ .whole }} {{ .huge }} {{ .tiny }} {{ .inf }} {{ .nan }} {{ .yes }} {{ .nil }}
{{ .time.Year }} {{ .time.Unix }} {{ .time.Format "2006-01-02" }}
{{ template "a" }}{{ define "a" }}{{ template "b" }}{{ end }}{{ define "b" }}deep{{ end }}
{{ with .dict }}{{ with .c }}{{ .d }}{{ end }}{{ .a }}{{ end }}
{{ range $i, $e := until 3 }}{{ if $i }},{{ end }}{{ $e }}{{ end }}
{{- range $k, $v := .dict }}
- {{ $k }}: {{ $v }}
{{- end }}
{{ if and (eq .int 7) (or .no (gt .i64 40)) }}both{{ end }}
{{ if not (empty .list) -}} full {{- end }}
{{ .text | len | printf "%03d" }}
{{ (printf "%s" .text) | upper }}
{{ printf "%d" (len .list) | quote }}
{{ if (len .list) }}a{{end}}
{{if .yes}}a{{end}}{{if .no}}b{{else}}c{{end}}
{{.yes}}{{.no}}
{{index .dict "c" | toJson}}
{{ .text -}}
{{- .text }}
{{ "a" -}}  	
  b
{{ define "T" }}{{ . }}{{ end }}{{ range .list }}{{ template "T" . }}{{ end }}
{{ $ }}
{{ $.text }}
{{ $.missing }}
{{ $.text.more }}
{{ with 1 }}{{ $.int }}{{ end }}
{{ else if .yes }}{{ end }}
{{ if .yes }}{{ end .no }}
{{ if .yes }}{{ else .no }}{{ end }}
{{ range $a, $b, $c := .list }}{{ end }}
{{ range $a, 1 := .list }}{{ end }}
{{ if $a, $b := .list }}{{ end }}
{{ with $a, $b := .list }}{{ end }}
{{ range }}{{ end }}
{{ with }}{{ end }}
{{ block }}{{ end }}
{{ define }}{{ end }}
{{ end }}{{ end }}
{{ .text | .dict.a }}
{{ .dict.a | print 1 }}
{{ printf }}
{{ printf 1 }}
{{ printf "%d" }}
{{ printf .nil }}
{{ add }} {{ add 1 }} {{ add 1 2 3 }}
{{ "a" | fail }}
"""

MODES = r"""
{{ .missing }}
{{ .missing.more }}
{{ .dict.missing }}
{{ .textmap.missing }}
{{ .nil }}
{{ .nil.more }}
{{ if .missing }}a{{ else }}b{{ end }}
{{ .missing | default "d" }}
{{ with .missing }}a{{ else }}b{{ end }}
{{ range .missing }}a{{ else }}b{{ end }}
{{ print .missing }}
{{ printf "%v" .missing }}
{{ eq .missing "a" }}
{{ len .missing }}
{{ index .missing "a" }}
{{ upper .missing }}
{{ toJson .missing }}
{{ .missing | quote }}
{{ $x := .missing }}{{ $x }}
{{ not .missing }}
{{ and .missing 1 }}
"""

PRINTF_VERBS = [
    "v",
    "+v",
    "#v",
    "T",
    "d",
    "5d",
    "-5d|",
    "05d",
    "+d",
    " d",
    "b",
    "o",
    "#o",
    "x",
    "X",
    "#x",
    "% x",
    "c",
    "q",
    "#q",
    "U",
    "#U",
    "e",
    "E",
    "f",
    "F",
    "g",
    "G",
    ".2f",
    "8.3f",
    "-8.2f|",
    "+.1e",
    "s",
    "10s",
    "-10s|",
    ".3s",
    "t",
    "p",
    "%",
    "z",
    "!",
    "",
    "[1]d",
    "[2]d",
    "*d",
    "6.2d",
    "+q",
    "x.",
    "#g",
    "O",
]
PRINTF_VALUES = [
    ".int",
    ".neg",
    ".f",
    ".huge",
    ".tiny",
    ".text",
    ".unicode",
    ".yes",
    ".nil",
    ".list",
    ".dict",
    ".bytes",
    ".ints",
    ".textmap",
    ".mixed",
    ".binary",
    "'x'",
]

TEXTS = [
    ".text",
    ".blank",
    ".unicode",
    ".lines",
    ".quotes",
    ".html",
    '"  padded\\t"',
    '"UPPER lower Title"',
    '"snake_case_name"',
    '"kebab-case-name"',
    '"camelCaseName"',
    '"HTTPServer2xx"',
    '"a1b22 C3"',
    '"1.5"',
    '"12"',
    '"-7"',
    '"0x1f"',
    '"true"',
    '"a/b/../c.txt"',
    '"/abs/path/"',
    '"x"',
    '"_a__b_"',
    '"GOLANG_IS_GREAT"',
    '"no_https"',
    '"a,b,,c"',
    '"éa Éb"',
    '"aaa"',
    '"$foo$"',
    '"aGVsbG8="',
    '"aGVsbG8"',
    '"!!"',
    '"NBSWY3DP"',
]
ONE_TEXT = [
    "upper",
    "lower",
    "title",
    "untitle",
    "trim",
    "nospace",
    "initials",
    "swapcase",
    "snakecase",
    "camelcase",
    "kebabcase",
    "quote",
    "squote",
    "sha1sum",
    "sha256sum",
    "adler32sum",
    "toString",
    "atoi",
    "int64",
    "int",
    "float64",
    "toDecimal",
    "b64enc",
    "b64dec",
    "b32enc",
    "b32dec",
    "base",
    "dir",
    "clean",
    "ext",
    "isAbs",
    "toJson",
    "toPrettyJson",
    "empty",
    "kindOf",
    "typeOf",
    "len",
    "html",
    "js",
    "urlquery",
    "toStrings",
    "sortAlpha",
    "cat",
    "print",
    "list",
    "hello | print",
]
VALUES = [
    ".text",
    ".blank",
    ".int",
    ".zero",
    ".neg",
    ".i64",
    ".f",
    ".whole",
    ".huge",
    ".tiny",
    ".inf",
    ".nan",
    ".yes",
    ".no",
    ".nil",
    ".list",
    ".mixed",
    ".none",
    ".dict",
    ".nodict",
    ".texts",
    ".ints",
    ".textmap",
    ".bytes",
    ".binary",
    ".bytesmap",
    ".time",
    "nil",
    '"12"',
    "1.5",
    "'a'",
    "true",
    "(list)",
    "(dict)",
]
ONE_VALUE = [
    "toString",
    "quote",
    "squote",
    "cat",
    "toStrings",
    "sortAlpha",
    "atoi",
    "int64",
    "int",
    "float64",
    "toDecimal",
    "add1",
    "ceil",
    "floor",
    "max",
    "min",
    "biggest",
    "empty",
    "coalesce",
    "toJson",
    "toPrettyJson",
    "typeOf",
    "kindOf",
    "deepCopy",
    "first",
    "last",
    "rest",
    "initial",
    "reverse",
    "uniq",
    "compact",
    "list",
    "tuple",
    "keys",
    "values",
    "len",
    "not",
    "print",
    "println",
    "html",
    "js",
    "urlquery",
    'join ","',
    'default "d"',
    "upper",
    "until",
    "concat",
    "slice",
    "ternary 1 2",
    "append .list",
    "push .list",
    "prepend .list",
    "without .list",
    "has .mixed",
    'kindIs "string"',
    'typeIs "int"',
    'typeIsLike "string"',
    'dict "k"',
    "round 1.25",
    "add 1",
    "sub 10",
    "mul 3",
    "div 100",
    "mod 100",
    "index .list",
    "eq 1",
    "lt 1",
    'deepEqual "a"',
    'date "2006-01-02"',
    "htmlDate",
    "unixEpoch",
    'splitList ","',
    "hasKey .dict",
    "and 1",
    "or 0",
    'plural "one" "many"',
    "ago",
]

PRINTF = r"""
{{ printf "%d %d" 1 }}
{{ printf "%d" 1 2 }}
{{ printf "%[2]d %[1]d" 1 2 }} {{ printf "%[3]d" 1 }} {{ printf "%[x]d" 1 }} {{ printf "%*d|%-*d|" 5 1 5 2 }} {{ printf "%.*f" 2 3.14159 }}
"""

STRINGS = r"""
{{ hello }}
{{ abbrev 5 "hello world" }} {{ abbrev 4 "hello" }} {{ abbrev 3 "hello" }} {{ abbrev 20 "hello" }} {{ abbrev 5 "" }} {{ abbrev 5 "héllo wörld" }}
{{ abbrevboth 5 10 "1234 5678 9123" }} {{ abbrevboth 0 7 "hello world" }} {{ abbrevboth 5 7 "1234 5678 9123" }} {{ abbrevboth 2 4 "hello" }} {{ abbrevboth 5 6 "hello world" }} {{ abbrevboth 20 10 "1234 5678 9123" }} {{ abbrevboth 10 10 "1234 5678 9123 4567" }} {{ abbrevboth -1 5 "hello world" }}
{{ trunc 5 .text }} {{ trunc 0 .text }} {{ trunc 100 .text }} {{ trunc 2 .unicode | printf "%q" }}
{{ trunc -5 .text }}
{{ trunc -1 "" }}
{{ substr 0 5 .text }} {{ substr 3 5 .text }} {{ substr -1 5 .text }} {{ substr 3 -1 .text }} {{ substr 3 100 .text }} {{ substr -1 0 .text }}
{{ substr 5 3 .text }}
{{ substr 100 200 .text }}
{{ substr -1 100 .text }}
{{ substr -1 -1 .text }}
{{ substr 0 2 .unicode | printf "%q" }}
{{ repeat 3 "ab" }} {{ repeat 0 "ab" }}
{{ trimall "$" "$5.00$" }} {{ trimAll "$" "$5.00$" }} {{ trimAll "ab" "abcba" }} {{ trimAll "" "a" }} {{ trimAll "é" "éaé" }}
{{ trimSuffix "-" "hello-" }} {{ trimSuffix "x" "hello-" }} {{ trimPrefix "-" "-hello" }} {{ trimPrefix "--" "-hello" }}
{{ wrap 5 "aaaaa bbbbb ccc ddd" }} {{ wrap 0 "a b c" }} {{ wrap 5 "verylongword short" }} {{ wrap 80 "short" }} {{ wrap 3 "" }} {{ wrap 4 "a  b  c  d" }} {{ wrap 2 "verylongword" }}
{{ wrapWith 5 "|" "aaaaa bbbbb ccc ddd" }} {{ wrapWith 5 "|" "verylongword short" }} {{ wrapWith 5 "" "aaaaa bbbbb" }} {{ wrapWith 5 "\t" "Hello World" }} {{ wrapWith 0 "|" "abc" }} {{ wrapWith 4 "|" "héé wörld" | printf "%q" }}
{{ contains "lo" "hello" }} {{ contains "" "hello" }} {{ contains "x" "hello" }} {{ hasPrefix "he" "hello" }} {{ hasPrefix "" "" }} {{ hasSuffix "lo" "hello" }} {{ hasSuffix "x" "hello" }}
{{ quote "a" 1 .nil true "b\"c" }} {{ quote }} {{ quote .nil }} {{ squote "a" 1 .nil "it's" }} {{ squote }}
{{ cat "a" 1 .nil 2.5 "b" }} {{ cat }} {{ cat "" "" }} {{ cat .list .dict }} {{ cat "%d" 1 }}
{{ indent 4 "a\nb\n" }}|{{ indent 0 "a" }}|{{ indent 2 "" }}|{{ nindent 2 "a\nb" }}
{{ indent -1 "a" }}
{{ replace "a" "b" "banana" }} {{ replace "" "-" "abc" }} {{ replace "x" "y" "abc" }} {{ replace "a" "" "banana" }}
{{ plural "one" "many" 1 }} {{ plural "one" "many" 0 }} {{ plural "one" "many" 2 }}
{{ plural "one" "many" "x" }}
{{ split "/" "a/b/c" }} {{ (split "/" "a/b/c")._1 }} {{ split "" "abc" }} {{ split "x" "abc" }} {{ split "/" "" }}
{{ (split "/" "a")._5 }}
{{ splitList "/" "a/b/c" }} {{ splitList "" "aéc" }} {{ splitList "/" "" | len }} {{ splitList "//" "a//b" | toJson }}
{{ splitn "/" 2 "a/b/c" }} {{ splitn "/" 0 "a/b" }} {{ splitn "/" -1 "a/b/c" }} {{ splitn "" 2 "abc" }} {{ splitn "/" 1 "a/b" }}
{{ join "," .list }} {{ join "-" .mixed }} {{ join "," .texts }} {{ join "," .ints }} {{ join "," "text" }} {{ join "," .nil }} {{ join "," .none }} {{ join "," 5 }}
{{ sortAlpha .list }} {{ sortAlpha .mixed }} {{ sortAlpha .ints }} {{ sortAlpha "b" }} {{ sortAlpha (list "B" "a" "é" "z" "1") }}
{{ toStrings .mixed | toJson }} {{ toStrings (list 1 nil 2.5 "x") | toJson }}
{{ camelcase "" }} {{ camelcase "_" }} {{ camelcase "__" }} {{ camelcase "_a" }} {{ camelcase "some_words" }} {{ camelcase "_complex__case_" }} {{ camelcase "ab_" }} {{ camelcase "A" }} {{ camelcase "x-y z" }} {{ camelcase "_é" }}
{{ snakecase "" }} {{ snakecase "FirstName" }} {{ snakecase "HTTPServer" }} {{ snakecase "NoHTTPS" }} {{ snakecase "GO_PATH" }} {{ snakecase "GO PATH" }} {{ snakecase "GO-PATH" }} {{ snakecase "HTTP2XX" }} {{ snakecase "http2xx" }} {{ snakecase "HTTP20xOK" }} {{ snakecase "Duration2m3s" }} {{ snakecase "Bld4Floor3rd" }} {{ snakecase "a__b" }} {{ snakecase "A" }} {{ snakecase "AB" }} {{ snakecase "ABc" }} {{ snakecase "éÉa" }} {{ snakecase "a.b" }} {{ snakecase "2" }} {{ snakecase "2a" }} {{ snakecase "X.Y" }}
{{ camelcase "option_A" }} {{ camelcase "HTTP_X" }} {{ camelcase "a__B" }} {{ camelcase " - " }} {{ camelcase "_Ⅳ" }} {{ camelcase "ǅa_ǆb" }} {{ camelcase "\xff_\xffA" }}
{{ snakecase "BB日Z" }} {{ snakecase "a日b" }} {{ snakecase "Bcǅ" }} {{ snakecase "bⅣ$c" }} {{ snakecase "Aⓐ9ª" }} {{ snakecase "鿍a" }} {{ snakecase "𠀀a" }}
{{ snakecase "a\xffB" }} {{ snakecase "\xff" }} {{ snakecase "AB\xffc" }} {{ snakecase "A\xff" }} {{ snakecase "1\xff" }} {{ snakecase "-\xff" }} {{ kebabcase "a\xff-\xffb" }}
{{ swapcase "ⓐⅳ ⅣªB" }} {{ swapcase "a\xffB" }}
{{ kebabcase "FirstName" }} {{ kebabcase "HTTPServer" }} {{ kebabcase "GO_PATH" }} {{ kebabcase "HTTP20xOK" }} {{ kebabcase "a - b" }} {{ kebabcase "-a" }}
{{ swapcase "This Is A.Test" }} {{ swapcase "a b" }} {{ swapcase "1a" }} {{ swapcase "ǅx" }} {{ swapcase "ßa ß" }}
{{ initials "First Try" }} {{ initials "" }} {{ initials " a  b" }} {{ initials "éa bc" }}
{{ nospace "a b\tc\n" }} {{ nospace "é à" | printf "%q" }} {{ nospace "héllo" }}
{{ untitle "Hello World" }} {{ untitle "HELLO" }} {{ title "hello world-foo bar_baz o'neil 1st" }} {{ title "ǆ ß" }}
{{ upper "ßé" }} {{ lower "İÉ" }} {{ lower "ΣΑΣ" }} {{ upper "ŉ" }} {{ upper "ﬁ" }} {{ title "ﬁ" }}
{{ trim "\u00a0 a \u2003" }}|{{ trim "\x00a" | printf "%q" }}|{{ trim "\x1ca\x1f" | printf "%q" }}|{{ trim "\u200ba" | printf "%q" }}|{{ trim "\u0085a" | printf "%q" }}
{{ "a\nb" | indent 2 | trim }}
{{ b64enc "hello" }} {{ b64dec "aGVsbG8=" }} {{ b64dec "aGVsbG8" }} {{ b64dec "a" }} {{ b64dec "!!!!" }} {{ b64dec "aGVs\nbG8=" }} {{ b64dec "aGVsbG8==" }} {{ b64dec "" }} {{ b64dec "_-8=" }} {{ b64dec "aGVsbG9=" }} {{ b64dec "aGVsbG8=aGVs" }}
{{ b64dec "aG=sbG8=" }} {{ b64dec "====" }} {{ b64dec "aGVsbA=" }} {{ b64dec "aGVsbA==x" }} {{ b64dec "é" }}
{{ b64dec "//79" | printf "%q" }}
{{ b32enc "hello" }} {{ b32dec "NBSWY3DP" }} {{ b32dec "nbswy3dp" }} {{ b32dec "NBSWY3D" }} {{ b32dec "NBSWY3DPEB3W64TMMQ======" }} {{ b32dec "!" }} {{ b32dec "" }} {{ b32dec "NBSWY3DP\n" }} {{ b32dec "NBSWY===" }} {{ b32dec "=" }}
{{ b32dec "MZXW6===" }} {{ b32dec "MZXW6==" }} {{ b32dec "MZXW6====" }} {{ b32dec "M" }} {{ b32dec "MZ======MZ" }}
{{ sha1sum "" }} {{ sha256sum "" }} {{ adler32sum "" }} {{ sha256sum "é" }} {{ adler32sum "hello" }}
{{ toString .time }} {{ toString .bytes }} {{ toString .binary | printf "%q" }} {{ toString .nil }} {{ toString .list }} {{ toString 1.0 }} {{ toString 1e21 }}
"""

NUMBERS = r"""
{{ add 1 2 3 }} {{ add "1" 2.9 true }} {{ add .nil }} {{ add "x" 1 }} {{ add -1 }} {{ add .f .i64 .int }}
{{ add1 41 }} {{ add1 "41" }} {{ add1 9223372036854775807 }}
{{ add 9223372036854775807 1 }} {{ sub -9223372036854775807 2 }} {{ mul 9223372036854775807 2 }} {{ mul 4611686018427387904 2 }}
{{ sub 5 3 }} {{ sub 3 5 }} {{ sub "5" 3.7 }}
{{ sub 1 }}
{{ sub 1 2 3 }}
{{ div 7 2 }} {{ div -7 2 }} {{ div 7 -2 }} {{ div 7.9 2 }}
{{ div 1 0 }}
{{ mod 7 2 }} {{ mod -7 2 }} {{ mod 7 -2 }}
{{ mod 1 0 }}
{{ mul 2 3 4 }} {{ mul 2 }} {{ mul "2" 1.9 }}
{{ mul }}
{{ max 1 3 2 }} {{ min 3 1 2 }} {{ biggest 1 3 }} {{ max "5" 3 }} {{ max 1 }} {{ min -1 .nil }}
{{ max }}
{{ floor 1.9 }} {{ floor -1.1 }} {{ floor "1.9" }} {{ floor "x" }} {{ floor 5 }} {{ ceil 1.1 }} {{ ceil -1.9 }} {{ ceil "1.1" }}
{{ round 1.2345 2 }} {{ round 1.5 0 }} {{ round 2.5 0 }} {{ round -1.5 0 }} {{ round 123.456 -1 }} {{ round "1.255" 2 }} {{ round 123.5555 3 }} {{ round 1.5 0 0.6 }} {{ round 123.5555 3 0.5 }} {{ round 1234567.891 1 }} {{ round -2.3 0 }}
{{ round 1.5 }}
{{ round 1.5 0 1 }}
{{ round 1.5 "0" }}
{{ int 1.9 }} {{ int -1.9 }} {{ int "12" }} {{ int "1.5" }} {{ int "0x1f" }} {{ int true }} {{ int .nil }} {{ int .list }} {{ int 1e3 }} {{ int64 "9223372036854775808" }} {{ int64 "-5" }} {{ int " 5" }} {{ int "+5" }} {{ int "1_000" }}
{{ float64 "1.5" }} {{ float64 "1e3" }} {{ float64 "x" }} {{ float64 "inf" }} {{ float64 "NaN" }} {{ float64 "0x1p4" }} {{ float64 "1_0" }} {{ float64 3 }} {{ float64 true }} {{ float64 ".5" }} {{ float64 "5." }} {{ float64 " 5" }} {{ float64 "1e400" }} {{ float64 "-0" }} {{ float64 "infinity" }}
{{ atoi "12" }} {{ atoi "x" }} {{ atoi "1.5" }} {{ atoi "-3" }} {{ atoi "" }} {{ atoi "+7" }} {{ atoi "99999999999999999999" }} {{ atoi "-99999999999999999999" }} {{ atoi "0x10" }}
{{ atoi 5 }}
{{ toDecimal "777" }} {{ toDecimal 755 }} {{ toDecimal "8" }} {{ toDecimal "" }} {{ toDecimal "-17" }} {{ toDecimal 1.5 }} {{ toDecimal "0777" }} {{ toDecimal .nil }}
{{ until 3 }} {{ until 0 }} {{ until -3 }} {{ untilStep 0 10 3 }} {{ untilStep 10 0 -3 }} {{ untilStep 0 10 0 }} {{ untilStep 0 10 -1 }} {{ untilStep 10 0 1 }} {{ untilStep 3 3 1 }} {{ untilStep 5 5 -1 }}
{{ untilStep 1 2 }}
{{ kindOf (add 1 2) }} {{ kindOf (len .list) }} {{ kindOf (int 1) }} {{ kindOf (floor 1) }} {{ kindOf 1 }} {{ kindOf 1.0 }} {{ kindOf 'a' }} {{ kindOf 1i }} {{ kindOf (atoi "1") }} {{ kindOf (until 2) }} {{ kindOf true }} {{ kindOf "a" }} {{ kindOf nil }}
{{ typeOf (add 1 2) }} {{ typeOf (until 2) }} {{ typeOf 1 }} {{ typeOf 1.0 }} {{ typeOf 'a' }} {{ typeOf 1i }} {{ typeOf (list) }} {{ typeOf (dict) }} {{ typeOf (split "," "a") }} {{ typeOf (splitList "," "a") }} {{ typeOf now }} {{ typeOf (semver "1.2.3") }} {{ typeOf nil }}
{{ floor 1e18 }} {{ floor 123456789.5 }} {{ floor 1234567.5 }} {{ ceil 0.000001 }} {{ ceil 1e20 }} {{ ceil 1e21 }} {{ mul 1.0 1e6 }}
{{ round 1e20 2 }} {{ float64 "123456789012345678" }} {{ float64 "0.1" }} {{ float64 "1e-7" }}
"""

LISTS = r"""
{{ list }} {{ list 1 "a" .nil 2.5 }} {{ tuple 1 2 }} {{ list 1 2 | toJson }} {{ list nil | toJson }}
{{ append .list "z" }} {{ push .list "z" }} {{ prepend .list "z" }} {{ append .texts 1 }} {{ append .ints .nil }} {{ prepend .bytes 1 }}
{{ append .text 1 }}
{{ append .nil 1 }}
{{ append nil 1 }}
{{ prepend .dict 1 }}
{{ first .list }} {{ last .list }} {{ rest .list }} {{ initial .list }} {{ first .none }} {{ last .none }} {{ rest .none }} {{ initial .none }} {{ first .texts }} {{ last .ints }} {{ first .bytes }} {{ rest .ints }}
{{ first .text }}
{{ first .nil }}
{{ rest .int }}
{{ last .dict }}
{{ initial .yes }}
{{ reverse .list }} {{ reverse .ints }} {{ reverse .none }} {{ reverse .bytes }}
{{ reverse .text }}
{{ uniq .list }} {{ uniq .mixed }} {{ uniq (list 1 1.0 "1" 1 nil nil) }} {{ uniq (list (list 1) (list 1) (dict "a" 1) (dict "a" 1)) }} {{ uniq .ints }}
{{ uniq .text }}
{{ compact .mixed }} {{ compact (list 0 "" nil false (list) (dict) 1 "a") }} {{ compact .none }}
{{ compact .int }}
{{ without .list "a" }} {{ without .list "a" "b" }} {{ without .list }} {{ without .ints 1 }} {{ without (list 1 1.0 "1") 1 }} {{ without .texts "x" }}
{{ without .text "a" }}
{{ has "a" .list }} {{ has "z" .list }} {{ has 1 .ints }} {{ has 1 .mixed }} {{ has nil .mixed }} {{ has "a" .nil }} {{ has "a" nil }} {{ has "x" .texts }} {{ has 104 .bytes }} {{ has (list "x") .mixed }}
{{ has "a" .text }}
{{ has "a" .dict }}
{{ slice .list }} {{ slice .list 1 }} {{ slice .list 1 2 }} {{ slice .list "1" }} {{ slice .none }} {{ slice .texts 0 0 }} {{ slice .list 0 9 }}
{{ slice .dict 1 }}
{{ concat .list .ints }} {{ concat }} {{ concat .none }} {{ concat .list .none .texts | len }} {{ concat (list 1) (list 2 (list 3)) }}
{{ concat .list "a" }}
{{ concat .nil }}
{{ join "," (slice .list 1 3) }} {{ index (slice .list 1) 0 }} {{ len (slice .bytes 1 2) }} {{ range slice .ints 1 }}{{ . }}{{ end }}
{{ list 1 2 3 | rest | first }} {{ list "b" "a" | sortAlpha | first }} {{ .list | uniq | len }}
{{ typeOf (first .bytes) }} {{ typeOf (slice .texts 1) }} {{ typeOf (rest .texts) }} {{ typeOf (uniq .ints) }} {{ typeOf (concat) }} {{ typeOf (rest .none) }} {{ typeOf (index .list 0) }}
{{ toJson (rest .none) }} {{ toJson (initial .list) }} {{ toJson (concat) }} {{ toJson (slice .none) }} {{ toJson (compact .none) }}
"""

DICTS = r"""
{{ dict }} {{ dict "a" 1 "b" 2 }} {{ dict "a" }} {{ dict "a" 1 "b" }} {{ dict 1 2 }} {{ dict nil 1 }} {{ dict "a" 1 "a" 2 }} {{ dict .bytes 1 }}
{{ $d := dict "a" 1 }}{{ $d = set $d "b" 2 }}{{ $d }}{{ set $d "c" nil }}{{ $d }}
{{ $d := dict "a" 1 }}{{ $_ := set $d "b" (list 1) }}{{ $d | toJson }}{{ $_ := unset $d "a" }}{{ $d }}{{ unset $d "zz" }}
{{ set .textmap "a" "b" }}
{{ set .dict 1 2 }}
{{ set .list "a" 1 }}
{{ set (dict) "a" }}
{{ unset .textmap "k1" }}
{{ hasKey .dict "a" }} {{ hasKey .dict "zz" }} {{ hasKey (dict "a" nil) "a" }}
{{ hasKey .dict 1 }}
{{ pluck "a" .dict (dict "a" 5) .nodict }} {{ pluck "zz" .dict }} {{ pluck "a" }}
{{ pluck "a" .textmap }}
{{ keys .dict | sortAlpha }} {{ keys .dict .nodict (dict "z" 1) | sortAlpha }} {{ keys }} {{ keys .nodict }} {{ typeOf (keys .dict) }}
{{ keys .textmap }}
{{ values (dict "a" 1) }} {{ values .nodict }} {{ values (dict "a" (list 1 2)) | toJson }}
{{ values .textmap }}
{{ values .dict .dict }}
{{ pick .dict "a" "zz" }} {{ pick .dict }} {{ omit .dict "a" }} {{ omit .dict }} {{ omit .dict "zz" "b" "c" }}
{{ pick .dict 1 }}
{{ pick .dict .list }}
{{ omit .textmap "k1" }}
{{ merge (dict "a" 1) (dict "a" 2 "b" 3) }} {{ merge (dict) (dict "a" 1) (dict "a" 2 "b" 5) }} {{ merge (dict "a" 1) }}
{{ merge (dict "a" (dict "x" 1)) (dict "a" (dict "x" 2 "y" 3)) | toJson }}
{{ merge (dict "a" (dict "x" 1)) (dict "a" "text") | toJson }} {{ merge (dict "a" "text") (dict "a" (dict "x" 1)) | toJson }}
{{ merge (dict "a" (list 1)) (dict "a" (list 2 3)) | toJson }} {{ merge (dict "a" (list)) (dict "a" (list 2 3)) | toJson }} {{ merge (dict "a" "") (dict "a" (list 2)) | toJson }}
{{ merge (dict "a" "" "b" 0 "c" nil "d" false) (dict "a" "x" "b" 1 "c" 2 "d" true) | toJson }}
{{ merge (dict "a" 1) (dict "a" nil "b" nil) | toJson }} {{ merge (dict "a" (dict)) (dict "a" (dict "k" 1)) | toJson }}
{{ merge (dict "a" (dict "b" (dict "c" 1))) (dict "a" (dict "b" (dict "c" 2 "d" 3) "e" 4)) | toJson }}
{{ mergeOverwrite (dict "a" 1) (dict "a" 2 "b" 3) }} {{ mergeOverwrite (dict "a" (dict "x" 1 "z" 0)) (dict "a" (dict "x" 2 "y" 3)) | toJson }}
{{ mergeOverwrite (dict "a" 1 "b" 2) (dict "a" "" "b" 0) | toJson }} {{ mergeOverwrite (dict "a" 1) (dict "a" nil) | toJson }}
{{ mergeOverwrite (dict "a" (list 1)) (dict "a" (list 2 3)) | toJson }} {{ mergeOverwrite (dict "a" (list 1)) (dict "a" (list)) | toJson }}
{{ mergeOverwrite (dict "a" (dict "x" 1)) (dict "a" "text") | toJson }} {{ mergeOverwrite (dict "a" "text") (dict "a" (dict "x" 1)) | toJson }}
{{ mergeOverwrite (dict "a" (dict "x" 1)) (dict "a" (dict)) | toJson }} {{ mergeOverwrite (dict "a" 1) (dict "a" (list 1)) | toJson }}
{{ mergeOverwrite (dict "a" (dict "x" (list 1) "y" "t")) (dict "a" (dict "x" "s" "y" (list 2))) | toJson }}
{{ mergeOverwrite (dict "a" (dict "x" 1)) (dict "a" (dict "x" nil "y" (dict "z" nil))) | toJson }}
{{ merge .textmap .textmap }}
{{ merge .list .dict }}
{{ merge }}
{{ merge nil (dict "a" 1) }}
{{ $a := dict "x" 1 }}{{ $b := merge $a (dict "y" 2) }}{{ $a }}
{{ $a := dict "n" (dict "k" 1) }}{{ $b := merge (dict) $a }}{{ $_ := set $b.n "z" 9 }}{{ $a }}
{{ $a := dict "n" (dict "k" 1) }}{{ $b := deepCopy $a }}{{ $_ := set $b.n "z" 9 }}{{ $a }}{{ $b }}
{{ deepCopy .mixed | toJson }} {{ deepCopy .texts }} {{ deepCopy "a" }} {{ deepCopy 5 }} {{ deepCopy .time }} {{ typeOf (deepCopy .dict) }} {{ typeOf (deepCopy .ints) }}
{{ deepEqual (dict "a" (list 1)) (dict "a" (list 1)) }} {{ deepEqual 1 1.0 }} {{ deepEqual .nil nil }} {{ deepEqual .list .texts }} {{ deepEqual (list) .none }} {{ deepEqual .time .time }} {{ deepEqual .i64 42 }} {{ deepEqual .int 7 }}
{{ dict "b" 1 "a" 2 | toJson }} {{ dict "a" (dict "b" (list 1 2 nil)) | toPrettyJson }} {{ toPrettyJson .none }} {{ toPrettyJson .nodict }} {{ toPrettyJson .mixed }}
{{ toJson .html }} {{ toJson "\u2028\u2029\x00\x1f\x7f\t\n\r\b\f\\/" }} {{ toJson .unicode }} {{ toJson .bytes }} {{ toJson .time }} {{ toJson .huge }} {{ toJson .tiny }} {{ toJson .whole }} {{ toJson .nan }} {{ toJson (list .inf) }} {{ toJson (dict "<" "&>") }} {{ toJson 1e-7 }} {{ toJson 1e20 }} {{ toJson 1e21 }} {{ toJson 'a' }} {{ toJson 100000.0 }} {{ toJson .binary }} {{ toJson "\xff" }}
{{ toJson 1i }} {{ toJson .bytesmap }} {{ toJson .nil }} {{ toJson . | len | lt 100 }}
{{ "k" | dict "a" }} {{ tuple "a" | first }}
"""

DEFAULTS = r"""
{{ default "d" .blank }} {{ default "d" .zero }} {{ default "d" .nil }} {{ default "d" .none }} {{ default "d" .nodict }} {{ default "d" .no }} {{ default "d" .text }} {{ default "d" .nan }} {{ default "d" .time }} {{ default "d" 0.0 }} {{ default "d" nil }} {{ default "d" }} {{ default "d" 1 2 }}
{{ default }}
{{ default .nil .nil }} {{ default 5 .blank | add 1 }} {{ .blank | default .zero | default "last" }}
{{ coalesce .blank .zero .nil "x" "y" }} {{ coalesce .blank .nil }} {{ coalesce }} {{ coalesce .list }}
{{ ternary "t" "f" true }} {{ ternary "t" "f" false }} {{ true | ternary 1 2 }} {{ ternary .nil "f" true }}
{{ ternary "t" "f" }}
{{ empty }}
{{ empty 1 2 }}
{{ empty .bytes }} {{ empty .time }} {{ empty 1i }} {{ empty 0i }} {{ empty "0" }} {{ empty 'a' }}
{{ typeIs "string" .text }} {{ typeIs "int" 1 }} {{ typeIs "[]interface {}" .list }} {{ typeIs "map[string]interface {}" .dict }} {{ typeIsLike "semver.Version" (semver "1.2.3") }} {{ kindIs "slice" .list }} {{ kindIs "map" .dict }} {{ kindIs "invalid" .nil }} {{ kindIs "struct" .time }} {{ kindIs "ptr" (semver "1.2.3") }}
{{ kindIs 1 .text }}
"""

PATHS = r"""
{{ base "a/b.txt" }} {{ base "" }} {{ base "/" }} {{ base "a/" }} {{ base "//" }} {{ base "." }} {{ base "a//b//" }}
{{ dir "a/b.txt" }} {{ dir "" }} {{ dir "/" }} {{ dir "a" }} {{ dir "/a" }} {{ dir "a/b/" }} {{ dir "a/../b/c" }} {{ dir "//x" }}
{{ clean "a/../b" }} {{ clean "" }} {{ clean "/../a" }} {{ clean "a//b/./c/.." }} {{ clean "../../a" }} {{ clean "/" }} {{ clean "a/.." }} {{ clean "./" }} {{ clean "/a/../../b" }}
{{ ext "a.txt" }} {{ ext "a" }} {{ ext "a.b/c" }} {{ ext ".bashrc" }} {{ ext "a." }} {{ ext "a.tar.gz" }} {{ ext "" }}
{{ isAbs "/a" }} {{ isAbs "a" }} {{ isAbs "" }}
{{ urlParse "http://user:pa%20ss@host:8080/p%20ath?q=1&r=2#frag" | toJson }}
{{ urlParse "mailto:a@b.c" | toJson }} {{ urlParse "" | toJson }} {{ urlParse "//host/path" | toJson }} {{ urlParse "/only/path?" | toJson }} {{ urlParse "HTTP://Host" | toJson }} {{ urlParse "http://[::1]:80/" | toJson }} {{ urlParse "http://host#" | toJson }} {{ urlParse "http://u@h/a?b#c d" | toJson }} {{ urlParse "http://[fe80::1%25en0]:8080/" | toJson }} {{ urlParse "a:b:c" | toJson }} {{ urlParse "http://h/%41%2f" | toJson }} {{ urlParse "s3://bucket/key?x=y" | toJson }} {{ urlParse "*" | toJson }}
{{ urlParse "http://a b.com/" }}
{{ urlParse "http://host/%zz" }}
{{ urlParse ":no" }}
{{ urlParse "1http://x" }}
{{ urlParse "http://h:port/" }}
{{ urlParse "http://[::1" }}
{{ urlParse "a\x00b" }}
{{ urlParse "ht tp://x" }}
{{ urlParse "first path:colon" }}
{{ urlParse "http://h/\x7f" }}
{{ urlParse "http://us%er@h/" }}
{{ urlParse "http://u^@h/" }}
{{ urlParse 1 }}
{{ urlJoin (dict "scheme" "http" "host" "host:80" "path" "/path" "query" "q=1" "fragment" "f" "userinfo" "u:p") }}
{{ urlJoin (dict) }} {{ urlJoin (dict "host" "h") }} {{ urlJoin (dict "scheme" "mailto" "opaque" "a@b") }} {{ urlJoin (dict "host" "h" "path" "p") }} {{ urlJoin (dict "path" "a b/é?#%" ) }} {{ urlJoin (dict "scheme" "http" "host" "h" "path" "/a b" "fragment" "x y") }} {{ urlJoin (dict "path" "a:b") }} {{ urlJoin (dict "path" "//x") }} {{ urlJoin (dict "scheme" "x" "path" "y") }} {{ urlJoin (dict "userinfo" "u") }} {{ urlJoin (dict "scheme" "http" "userinfo" "u" "host" "h") }} {{ urlJoin (dict "query" "a=b") }} {{ urlJoin (dict "host" "[::1]:80" "scheme" "http") }} {{ urlJoin (dict "host" "a b" "scheme" "http") }} {{ urlJoin (dict "scheme" "http" "host" "h" "userinfo" "u@x:p/w") }}
{{ urlJoin (dict "host" 1) }}
{{ urlJoin (dict "userinfo" "u r" "host" "h") }}
{{ urlJoin (dict "host" nil) }}
{{ urlJoin "x" }}
{{ urlParse "http://user:pa%20ss@host:8080/p%20ath?q=1&r=2#frag" | urlJoin }} {{ urlParse "mailto:a@b.c" | urlJoin }} {{ urlParse "/a%2Fb" | urlJoin }}
"""

REGEX = r"""
{{ regexMatch "^h.*o$" "hello" }} {{ regexMatch "x" "hello" }} {{ regexMatch "" "" }} {{ regexMatch "(" "x" }} {{ regexMatch "(?i)HELLO" "hello" }} {{ regexMatch "\\p{Greek}" "α" }} {{ regexMatch "[[:alpha:]]+" "abc" }} {{ regexMatch "^é$" "é" }}
{{ regexFind "[a-z]+" "123abc456" }} {{ regexFind "x" "abc" }} {{ regexFind "a*" "aaa" }} {{ regexFind "a+?" "aaa" }} {{ regexFind "é." "héllo" }}
{{ regexFind "(" "x" }}
{{ regexFind "[z-a]" "x" }}
{{ regexFind "a**" "x" }}
{{ regexFind "(?=a)" "x" }}
{{ regexFind "(?P<n>a)(?P<n>b)" "x" }}
{{ regexFind "\\" "x" }}
{{ regexFind "a{1001}" "x" }}
{{ regexFind "*" "x" }}
{{ regexFind "\\8" "x" }}
{{ regexFind "[" "x" }}
{{ regexFind ")" "x" }}
{{ regexFind "(?z)" "x" }}
{{ regexFind "\\pX" "x" }}
{{ regexFind "[[:foo:]]" "x" }}
{{ regexFind "x{2,1}" "x" }}
{{ regexFindAll "[a-z]" "a1b2c3" -1 }} {{ regexFindAll "[a-z]" "a1b2c3" 2 }} {{ regexFindAll "[a-z]" "a1b2c3" 0 }} {{ regexFindAll "x" "abc" -1 }} {{ regexFindAll "a*" "baaac" -1 | toJson }} {{ regexFindAll "" "ab" -1 | toJson }} {{ regexFindAll "" "éx" -1 | len }} {{ regexFindAll "a*?" "aa" -1 | toJson }} {{ regexFindAll "x" "abc" -1 | toJson }} {{ regexFindAll "b|" "abb" -1 | toJson }} {{ regexFindAll "(a)(b)?" "aab" -1 | toJson }} {{ regexFindAll "^a" "aa" -1 | toJson }} {{ regexFindAll "\\b" "ab cd" -1 | toJson }} {{ regexFindAll "(?m)^." "a\nb" -1 | toJson }}
{{ regexFindAll "(" "abc" -1 }}
{{ regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W" }} {{ regexReplaceAll "a(x*)b" "-ab-axxb-" "$1W" }} {{ regexReplaceAll "a(x*)b" "-ab-axxb-" "$1" }} {{ regexReplaceAll "(?P<n>x)" "axb" "[${n}]" }} {{ regexReplaceAll "(?P<n>x)" "axb" "[$n]" }} {{ regexReplaceAll "x" "axb" "$$" }} {{ regexReplaceAll "x" "axb" "$0$0" }} {{ regexReplaceAll "x" "axb" "${9}" }} {{ regexReplaceAll "x" "axb" "$" }} {{ regexReplaceAll "x" "axb" "${" }} {{ regexReplaceAll "x" "axb" "$ {1}" }} {{ regexReplaceAll "" "abc" "-" }} {{ regexReplaceAll "b*" "abc" "-" }} {{ regexReplaceAll "a*" "baac" "x" }} {{ regexReplaceAll "é" "héé" "e" }} {{ regexReplaceAll "" "éx" "-" }} {{ regexReplaceAll "x" "axb" "\\1\\\\" }} {{ regexReplaceAll "^" "ab" "-" }} {{ regexReplaceAll "$" "ab" "-" }} {{ regexReplaceAll "\\s+" "a  b\tc" " " }} {{ regexReplaceAll "(a)|(b)" "ab" "[$1$2]" }} {{ regexReplaceAll "(\\w)(\\w*)" "hello world" "$2$1 " }} {{ regexReplaceAll "x" "axb" "${1x}" }} {{ regexReplaceAll "x" "axb" "${01}$00" }}
{{ regexReplaceAll "(" "abc" "x" }}
{{ regexReplaceAllLiteral "a(x*)b" "-ab-axxb-" "${1}" }} {{ regexReplaceAllLiteral "x" "axb" "\\0$$" }} {{ regexReplaceAllLiteral "" "ab" "-" }}
{{ regexReplaceAllLiteral "[" "abc" "x" }}
{{ regexSplit "," "a,b,c" -1 }} {{ regexSplit "," "a,b,c" 2 }} {{ regexSplit "," "a,b,c" 0 }} {{ regexSplit "," "" -1 | toJson }} {{ regexSplit "z" "abc" -1 }} {{ regexSplit "" "abc" -1 | toJson }} {{ regexSplit "b*" "abbc" -1 | toJson }} {{ regexSplit "," ",a," -1 | toJson }} {{ regexSplit "a" "aaa" -1 | toJson }} {{ regexSplit "\\s+" " a b " 2 | toJson }} {{ regexSplit "," "a,b" 1 | toJson }} {{ regexSplit "" "" -1 | toJson }} {{ regexSplit "" "é日" -1 | toJson }} {{ regexSplit "x*" "axbxc" -1 | toJson }}
{{ regexSplit "(" "abc" -1 }}
{{ regexMatch 1 "x" }}
{{ regexFindAll "a" "b" }}
{{ regexFindAll "a" "b" "c" }}
{{ regexMatch "(?s)a.b" "a\nb" }} {{ regexMatch "a.b" "a\nb" }} {{ regexMatch "a$" "a\n" }} {{ regexMatch "\\Aa\\z" "a" }} {{ regexMatch "\\Z" "a" }} {{ regexMatch "(?U)a+" "aa" }} {{ regexFind "(?U)a+" "aa" }} {{ regexMatch "\\Qa.b\\E" "a.b" }} {{ regexMatch "\\d{3}-\\d{4}" "555-1234" }} {{ regexMatch "[^[:space:]]" " " }} {{ regexMatch "\\x{263a}" "☺" }} {{ regexMatch "\\C" "a" }} {{ regexMatch "(?P<a>.)(?<b>.)" "xy" }}
"""

SEMVERS = [
    "1.2.3",
    "v1.2.3",
    "1.2",
    "1",
    "1.2.3-alpha.1",
    "1.2.3-alpha",
    "1.2.3+build.5",
    "1.2.3-rc.1+b",
    "2.0.0",
    "0.0.0",
    "0.1.2",
    "10.20.30",
    "x",
    "",
    "1.2.3.4",
    "01.2.3",
    "1.2.3-",
    "99999999999999999999.0.0",
    "1.2.3-01",
    "V1.2.3",
    " 1.2.3",
    "1.2.3-beta.11",
    "1.2.3-beta.2",
]
CONSTRAINTS = [
    "1.2.3",
    "=1.2.3",
    "!=1.2.3",
    ">1.2.0",
    "<2",
    "<=1.2",
    ">=1.2.3",
    "=>1.2.3",
    "=<1.2.3",
    "~1.2",
    "~1.2.3",
    "~>1.2",
    "^1.2.3",
    "^1",
    "^0.1.2",
    "^0.0",
    "1.x",
    "1.2.x",
    "*",
    "1.2 - 1.4.5",
    ">=1.0, <2.0",
    "<1.0 || >=1.2",
    "~1",
    "~0.0.0",
    "!=1.x",
    "!=1.2.x",
    "<1.x",
    ">1.2.x",
    "^1.2.3-alpha",
    ">=1.2.3-0",
    "=1.2.3-alpha.1",
    "",
    "foo",
    ">",
    ">= 1.2 <2",
    "1.2.3 || foo",
    "x",
    "~x",
    "^*",
    "<=1.x",
    ">1",
    "~1.2.3-beta.2",
    ">1.2.3-alpha",
]

DATES = r"""
{{ now | date "2006-01-02T15:04:05.999999999Z07:00" }}
{{ date "2006-01-02" now }} {{ date "2006-01-02" "text" }} {{ date "2006-01-02" .nil }} {{ date "2006-01-02" 0 }} {{ date "2006-01-02 15:04:05" 1600000000 }} {{ date "2006" .i64 }} {{ date "2006" .f }} {{ date "15:04" .list }}
{{ .time | date "Mon Monday Jan January 1 01 2 02 _2 002 __2 3 03 15 4 04 5 05 06 2006 PM pm MST -0700 -07:00 -07 -070000 -07:00:00 Z0700 Z07:00 Z07 Z070000 Z07:00:00" }}
{{ .time | date "15:04:05.000 .000000 .999 ,000 ,999 .0 .9 05.00 05,00" }} {{ .time | date "2006-01-02T15:04:05.999999999Z07:00" }}
{{ .time | date "20060102150405" }} {{ .time | date "Mondayish Janet 2nd 20 200 1st" }} {{ .time | date "" }} {{ .time | date "no layout" }} {{ .time | date "_2006 _20061 02T 002 _2002" }} {{ .time | date "Jan _2 15:04:05.000000" }}
{{ dateInZone "2006-01-02 15:04 MST -0700" .time "America/New_York" }} {{ date_in_zone "15:04 MST" .time "Asia/Kolkata" }} {{ dateInZone "15:04 MST" .time "UTC" }} {{ dateInZone "15:04 MST" .time "" }} {{ dateInZone "15:04 MST" .time "Nowhere/Land" }} {{ dateInZone "15:04 MST -07" .time "Europe/Berlin" }} {{ dateInZone "15:04 MST Z07:00" 1625000000 "Europe/London" }} {{ dateInZone "MST" .time "Local" }} {{ dateInZone "MST -0700" .time "America/Sao_Paulo" }} {{ dateInZone "MST" .time "EST" }} {{ dateInZone "MST -07:00:00" 0 "Asia/Kathmandu" }} {{ dateInZone "15:04 MST" .time "../etc/passwd" }} {{ dateInZone "2006 MST" -3000000000 "Europe/Amsterdam" }}
{{ htmlDate .time }} {{ htmlDate 0 }} {{ htmlDate "x" }} {{ htmlDateInZone .time "Asia/Tokyo" }} {{ htmlDateInZone .time "bad" }}
{{ dateModify "-1.5h" .time | date "2006-01-02 15:04:05.999" }} {{ date_modify "1h30m" .time | htmlDate }} {{ dateModify "bad" .time }} {{ dateModify "72h" .time }} {{ dateModify "-1ns" .time }} {{ dateModify "1.5s" .time }} {{ dateModify "1us" .time }} {{ dateModify "1µs" .time }} {{ dateModify "1" .time }} {{ dateModify "+5m" .time }} {{ dateModify "0" .time }} {{ dateModify "" .time }} {{ dateModify "2562047h48m" .time }} {{ dateModify ".5h" .time }} {{ dateModify "1d" .time }} {{ dateModify "1h 2m" .time }}
{{ dateModify "1h" "x" }}
{{ dateModify "1h" 5 }}
{{ unixEpoch .time }} {{ unixEpoch now }}
{{ unixEpoch 5 }}
{{ unixEpoch "x" }}
{{ ago .time }} {{ ago now }} {{ ago 0 }} {{ ago .i64 }} {{ ago "x" }} {{ ago (dateModify "-90s" now) }} {{ ago (dateModify "3h" now) }} {{ ago (dateModify "-25h" now) }} {{ ago (dateModify "-999ms" now) }}
{{ toDate "2006-01-02" "2017-12-31" }} {{ toDate "2006-01-02" "nope" }} {{ toDate "2006-01-02" "2017-02-30" }} {{ toDate "2006-01-02" "2016-02-29" }} {{ toDate "" "" }} {{ toDate "2006-01-02" "" }}
{{ toDate "2006-01-02T15:04:05Z07:00" "2020-01-02T03:04:05+02:00" }} {{ toDate "2006-01-02T15:04:05Z07:00" "2020-01-02T03:04:05Z" }} {{ toDate "2006-01-02T15:04:05Z07:00" "2020-01-02T03:04:05.123456789Z" }} {{ toDate "2006-01-02T15:04:05Z07:00" "2020-01-02T24:00:00Z" }} {{ toDate "2006-01-02 15:04:05 MST" "2020-01-02 03:04:05 CET" }} {{ toDate "2006-01-02 15:04:05 MST" "2020-01-02 03:04:05 GMT+3" }} {{ toDate "2006-01-02 15:04:05 -0700" "2020-01-02 03:04:05 -0330" }} {{ toDate "Jan 2, 2006 at 3:04pm (MST)" "Feb 3, 2013 at 7:54pm (PST)" }} {{ toDate "2006-Jan-02" "2013-Feb-03" }} {{ toDate "Monday, 02-Jan-06 15:04:05 MST" "Wednesday, 04-Mar-21 05:06:07 UTC" }} {{ toDate "Mon Jan _2 15:04:05 2006" "Thu Mar  4 05:06:07 2021" }} {{ toDate "15:04" "23:59" }} {{ toDate "3PM" "12AM" }} {{ toDate "3:04PM" "12:30PM" }} {{ toDate "2006" "99" }} {{ toDate "06" "70" }} {{ toDate "06" "68" }} {{ toDate "06" "69" }} {{ toDate "002 2006" "060 2020" }} {{ toDate "2006-002" "2021-366" }} {{ toDate "15:04:05.000" "01:02:03.456" }} {{ toDate "15:04:05" "01:02:03.456" }} {{ toDate "15:04:05" "01:02:03,456" }} {{ toDate "2006-1-2" "2020-3-4" }} {{ toDate "2006-01-02" "2020-3-4" }} {{ toDate "2006-01-02" "2020-01-02x" }} {{ toDate "Jan" "jan" }} {{ toDate "Monday" "FRIDAY" }} {{ toDate "2006-01-02T15:04:05Z0700" "2020-01-02T03:04:05+0200" }} {{ toDate "2006-01-02T15:04:05-07" "2020-01-02T03:04:05+02" }} {{ toDate "Z07:00" "+14:30" }} {{ toDate "-0700" "+2500" }} {{ toDate "_2 Jan" " 5 Feb" }} {{ toDate "2 Jan" "31 Jun" }}
{{ (toDate "2006-01-02" "2017-12-31").Year }}
{{ toDate "2006-01-02T15:04:05.999999999Z07:00" "2024-05-06T07:08:09.123456789Z" | date "2006-01-02T15:04:05.000000000" }} {{ toDate "2006-01-02T15:04:05.999999999Z07:00" "2024-05-06T07:08:09Z" | unixEpoch }}
{{ now }}
{{ .time }} {{ print .time }} {{ printf "%v %s %d" .time .time .int }} {{ quote .time }} {{ toJson .time }} {{ toString (dateModify "1h" .time) }}
{{ date 1 now }}
{{ date "2006" }}
{{ dateInZone "2006" now }}
{{ eq now now }} {{ deepEqual now now }} {{ kindOf now }} {{ typeOf now }} {{ empty now }}
{{ now.Year }} {{ (now).Unix }}
{{ now.Format "2006-01-02" }} {{ now.UTC.Hour }} {{ now.Month }} {{ now.Weekday }} {{ (now.AddDate 0 1 0).Format "2006-01-02" }} {{ now.YearDay }} {{ now.IsZero }}
{{ (.time.Sub now).Hours }} {{ .time.Before now }} {{ .time.After now }} {{ .time.Equal now }} {{ .time.Nanosecond }} {{ .time.UnixNano }} {{ .time.String }}
{{ .time.Nope }}
"""

CRYPTO = r"""
{{ derivePassword 1 "long" "pw" "user" "site" }}
{{ derivePassword }}
{{ genPrivateKey "dsa" }}
{{ genPrivateKey "" }}
{{ genPrivateKey "foo" }}
{{ genPrivateKey "ed25519" }}
{{ genPrivateKey 1 }}
{{ genPrivateKey "ecdsa" | hasPrefix "-----BEGIN EC PRIVATE KEY-----\n" }}
{{ encryptAES "pw" "" }}|{{ decryptAES "pw" "" }}|{{ encryptAES "secretkey" "plain" | decryptAES "secretkey" }}|{{ encryptAES "a" "0123456789abcdef" | b64dec | len }}|{{ encryptAES "0123456789012345678901234567890123456789" "x" | decryptAES "01234567890123456789012345678901" }}
{{ decryptAES "secretkey" "30tEfhuJSVRhpG97XCuWgz2okj7L8vQ1s6V9zVUPeDQ=" }}
{{ decryptAES "pw" "not base64!" }}
{{ decryptAES "pw" "AAAA" }}
{{ decryptAES "pw" "AAAAAAAAAAAAAAAAAAAAAA==" }}
{{ decryptAES "pw" "AAAAAAAAAAAAAAAAAAAAAAAAAAA=" }}
{{ buildCustomCert "!" "!" }}
{{ buildCustomCert "aGVsbG8=" "!" }}
{{ buildCustomCert "aGVsbG8=" "aGVsbG8=" }}
{{ buildCustomCert "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=" "aGVsbG8=" | toString | trunc 20 }}
{{ genSelfSignedCert "x" (list "bad") nil 1 }}
{{ genSelfSignedCert "x" (list 1) nil 1 }}
{{ genSelfSignedCert "x" nil (list 1) 1 }}
{{ genSelfSignedCert "x" nil nil "1" }}
{{ genCA "x" }}
{{ genSignedCert "x" nil nil 1 "ca" }}
{{ $ca := genCA "test-ca" 365 }}{{ hasPrefix "-----BEGIN CERTIFICATE-----\n" $ca.Cert }} {{ hasPrefix "-----BEGIN RSA PRIVATE KEY-----\n" $ca.Key }} {{ typeOf $ca }} {{ kindOf $ca }}
{{ $ca := genCA "test-ca" 365 }}{{ $ca.Nope }}
{{ uuidv4 | regexMatch "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$" }}
{{ randAlphaNum 12 | regexMatch "^[0-9A-Za-z]{12}$" }} {{ randAlpha 7 | regexMatch "^[A-Za-z]{7}$" }} {{ randNumeric 5 | regexMatch "^[0-9]{5}$" }} {{ randAscii 9 | regexMatch "^[ -~]{9}$" }} {{ randAlpha 0 | len }}
{{ randAlpha "x" }}
{{ randAlpha -1 | len }}
{{ shuffle "abc" | splitList "" | sortAlpha | join "" }} {{ shuffle "" }} {{ shuffle "é" }}
{{ shuffle 1 }}
"""

# Functions of sprig 3 only.
NEWER = r"""
{{ get .dict "a" }}|{{ get .dict "zz" }}|{{ get .nodict "a" }}
{{ get .textmap "k1" }}
{{ dig "c" "d" "x" .dict }} {{ dig "c" "zz" "x" .dict }} {{ dig "zz" "d" "x" .dict }} {{ dig "a" "x" .dict }}
{{ dig "a" "b" "x" .dict }}
{{ dig "a" .dict }}
{{ dig "a" "x" .textmap }}
{{ dig "a" "x" .nil }}
{{ dig 1 "x" .dict }}
{{ dig "c" "d" "e" "x" .dict }}
{{ all 1 "a" true }} {{ all }} {{ all 1 "" }} {{ any 0 "" }} {{ any }} {{ any 0 1 }} {{ all .list .none }}
{{ fromJson "{\"a\": [1, 2.5, \"x\", null, true], \"b\": {}}" }} {{ fromJson "bad" }} {{ fromJson "" }} {{ (fromJson "{\"a\": {\"b\": 1}}").a.b }} {{ typeOf (fromJson "1") }} {{ typeOf (fromJson "[]") }} {{ fromJson "\"\\u00e9\\ud83c\\udf89\\n\\/\"" }} {{ fromJson " 1e3 " }} {{ fromJson "\"\\ud800\"" | printf "%q" }} {{ fromJson `{"a":1,"a":2}` }} {{ fromJson "1e400" }} {{ fromJson "-0" }} {{ fromJson "\"\xff\"" | printf "%q" }}
{{ mustFromJson "bad" }}
{{ mustFromJson "" }}
{{ mustFromJson " " }}
{{ mustFromJson "{" }}
{{ mustFromJson "[1,]" }}
{{ mustFromJson "[1 2]" }}
{{ mustFromJson `{"a" 1}` }}
{{ mustFromJson `{"a":1 "b"}` }}
{{ mustFromJson `{a:1}` }}
{{ mustFromJson `{"a":1,}` }}
{{ mustFromJson `{"a":` }}
{{ mustFromJson `{"a"` }}
{{ mustFromJson `{"a":1` }}
{{ mustFromJson "tru" }}
{{ mustFromJson "trux" }}
{{ mustFromJson "nul" }}
{{ mustFromJson "falze" }}
{{ mustFromJson "01" }}
{{ mustFromJson "1." }}
{{ mustFromJson "1.x" }}
{{ mustFromJson "1e" }}
{{ mustFromJson "1e+x" }}
{{ mustFromJson "-" }}
{{ mustFromJson "-x" }}
{{ mustFromJson "1 2" }}
{{ mustFromJson "\"a" }}
{{ mustFromJson `"\x"` }}
{{ mustFromJson `"\u12g4"` }}
{{ mustFromJson "\"\n\"" }}
{{ mustFromJson `"\u12` }}
{{ mustFromJson `"\` }}
{{ mustFromJson "'a'" }}
{{ mustFromJson "é" }}
{{ mustFromJson "日" }}
{{ mustFromJson "\x01" }}
{{ mustFromJson "\x7f" }}
{{ mustFromJson "1e999" }}
{{ mustFromJson "[1, 2" }}
{{ mustFromJson `{"a": [1}` }}
{{ mustFromJson "\\" }}
{{ mustFromJson `{"a":1}` | toJson }} {{ mustToJson .dict }} {{ mustToPrettyJson .dict }} {{ toRawJson .html }} {{ mustToRawJson .html }} {{ toRawJson (dict "<" "&\u2028") }}
{{ mustToJson .nan }}
{{ mustToJson .inf }}
{{ mustToPrettyJson (list .nan) }}
{{ toRawJson .nan }}
{{ mustToJson 1i }}
{{ chunk 2 (list 1 2 3) }} {{ chunk 3 (list 1 2 3) }} {{ chunk 5 (list 1) }} {{ chunk 2 (list) }} {{ chunk 2 .texts | toJson }} {{ typeOf (chunk 1 .list) }} {{ mustChunk 2 .list }}
{{ chunk 0 .list }}
{{ chunk -1 .list }}
{{ chunk 2 "a" }}
{{ chunk "2" .list }}
{{ seq 5 }} {{ seq -3 }} {{ seq 2 5 }} {{ seq 5 2 }} {{ seq 0 2 10 }} {{ seq 10 -3 0 }} {{ seq 0 -2 10 }} {{ seq 10 2 0 }} {{ seq }} {{ seq 0 }} {{ seq 1 1 }} {{ seq 1 2 3 4 }} {{ seq 2 1 2 }}
{{ add1f 1.5 }} {{ add1f "x" }} {{ addf 0.1 0.2 }} {{ addf }} {{ addf 1 2 "3.5" }} {{ subf 1 0.9 }} {{ subf 5 }} {{ mulf 1.1 1.1 }} {{ mulf 3 }} {{ divf 10 4 }} {{ divf 1 3 }} {{ divf 2 3 }} {{ divf -2 3 }} {{ maxf 1 2.5 "3" }} {{ minf 1 -2.5 }} {{ maxf 1 .nan }} {{ addf 1e300 1e300 }} {{ mulf 1e200 1e200 }} {{ divf 1e-20 3 }}
{{ divf 1 0 }}
{{ addf .nan 1 }}
{{ addf .inf }}
{{ subf }}
{{ duration 90 }} {{ duration "90" }} {{ duration "x" }} {{ duration 86400 }} {{ duration .i64 }} {{ duration "-5" }} {{ duration 1.5 }} {{ duration "99999999999" }} {{ duration "99999999999999999999" }}
{{ durationRound "2h10m5s" }} {{ durationRound "36h" }} {{ durationRound "900h" }} {{ durationRound "10000h" }} {{ durationRound "59s" }} {{ durationRound "1s" }} {{ durationRound "bad" }} {{ durationRound .i64 }} {{ durationRound "-2h" }} {{ durationRound "61s" }} {{ durationRound 5 }} {{ durationRound "500ms" }}
{{ mustDateModify "1h" .time }} {{ must_date_modify "-1m" .time }} {{ mustToDate "2006-01-02" "2020-01-02" }}
{{ mustDateModify "bad" .time }}
{{ mustDateModify "1d" .time }}
{{ mustDateModify "" .time }}
{{ mustDateModify "1" .time }}
{{ mustToDate "2006-01-02" "bad" }}
{{ mustToDate "2006-01-02" "2020-13-02" }}
{{ mustToDate "2006-01-02" "2020-02-30" }}
{{ mustToDate "2006-01-02" "2020-01-02x" }}
{{ mustToDate "15:04" "25:00" }}
{{ mustToDate "2006-01-02T15:04:05Z07:00" "2020-01-02 03:04:05Z" }}
{{ mustToDate "" "x" }}
{{ sha512sum "a" }} {{ osBase "a/b" }} {{ osDir "a/b" }} {{ osClean "a/../b" }} {{ osExt "a.b" }} {{ osIsAbs "/a" }} {{ osBase "" }} {{ osDir "" }} {{ osDir "/" }} {{ osExt "a/b" }} {{ osClean "//a" }}
{{ regexQuoteMeta "1.5-2.0?" }} {{ regexQuoteMeta "[a]{b}^$é\\|" }} {{ mustRegexMatch "a" "cat" }} {{ mustRegexFind "[a-z]" "1a" }} {{ mustRegexFindAll "a" "aa" -1 }} {{ mustRegexReplaceAll "(a)" "aa" "$1b" }} {{ mustRegexReplaceAllLiteral "a" "aa" "$1" }} {{ mustRegexSplit "," "a,b" -1 }}
{{ mustRegexMatch "(" "x" }}
{{ mustRegexFind "[" "x" }}
{{ mustRegexFindAll "*" "x" -1 }}
{{ mustRegexReplaceAll "a**" "x" "y" }}
{{ mustRegexReplaceAllLiteral "\\8" "x" "y" }}
{{ mustRegexSplit "x{2,1}" "x" -1 }}
{{ mustAppend .list 1 }} {{ mustPush .list 1 }} {{ mustPrepend .list 1 }} {{ mustFirst .list }} {{ mustLast .list }} {{ mustRest .list }} {{ mustInitial .list }} {{ mustReverse .list }} {{ mustUniq .list }} {{ mustWithout .list "a" }} {{ mustHas "a" .list }} {{ mustSlice .list 1 2 }} {{ mustCompact .mixed }} {{ mustDeepCopy .dict }}
{{ mustAppend 1 1 }}
{{ mustFirst "x" }}
{{ mustSlice 5 }}
{{ mustHas 1 "x" }}
{{ mustCompact .dict }}
{{ mustMerge (dict "a" 1) (dict "b" 2) | toJson }} {{ mustMergeOverwrite (dict "a" 1) (dict "a" 2) | toJson }}
{{ randInt 5 6 }} {{ randBytes 0 }} {{ randBytes 3 | len }} {{ randInt 0 10 | lt 100 }}
{{ randInt 5 5 }}
{{ randInt 6 5 }}
{{ htpasswd "a:b" "c" }}
{{ bcrypt "x" | len }}
{{ $k := genPrivateKey "ecdsa" }}{{ $c := genCAWithKey "ca" 1 $k }}{{ eq $c.Key $k }}
{{ genCAWithKey "ca" 1 "nope" }}
{{ $k := genPrivateKey "ed25519" | trimSuffix "Unknown type ed25519" | default "nope" }}{{ $c := genSignedCertWithKey "x" nil nil 1 (genCA "ca" 1) $k }}{{ eq $c.Key $k }}
{{ genSignedCertWithKey "x" nil nil 1 (genCA "ca" 1) "nope" }}
{{ genSelfSignedCertWithKey "x" nil nil 1 "-----BEGIN FOO-----\nAAAA\n-----END FOO-----\n" }}
"""


def templates_of(block: str) -> Iterator[str]:
    """Yield the templates of a block: one in each line, except for continued lines."""
    for line in block.strip("\n").split("\n"):
        if line:
            yield line


def cases() -> Iterator[Case]:
    """Yield all cases once, always in the same order."""
    seen: set[Case] = set()
    for case in _cases():
        if case not in seen:
            seen.add(case)
            yield case


def _cases() -> Iterator[Case]:
    yield from _syntax()
    yield from _printing()
    for name, text in product(ONE_TEXT, TEXTS):
        yield Case(f"{{{{ {name} {text} }}}}" if "|" not in name else f"{{{{ {name} }}}}")
    for name, value in product(ONE_VALUE, VALUES):
        yield Case(f"{{{{ {name} {value} }}}}", now=NOW)
    for block in (STRINGS, NUMBERS, LISTS, DICTS, DEFAULTS, PATHS, REGEX, CRYPTO):
        yield from _lines_and_actions(block, "")
    yield from _lines_and_actions(DATES, NOW)
    yield from _versions()


def _syntax() -> Iterator[Case]:
    for template in templates_of(SYNTAX_PARAMS):
        yield Case(template, "params", now=NOW)
        yield Case(template, "bare", now=NOW)
    for template in (*templates_of(SYNTAX_MAP), *MULTILINE):
        yield Case(template)
    modes = ("default", "zero", "invalid")
    for template, mode, data in product(templates_of(MODES), modes, ("map", "bare")):
        yield Case(template, data, mode)


def _printing() -> Iterator[Case]:
    for verb, value in product(PRINTF_VERBS, PRINTF_VALUES):
        yield Case(f'{{{{ printf "%{verb}" {value} }}}}')
    for template in templates_of(PRINTF):
        yield Case(template)


def _lines_and_actions(block: str, now: str) -> Iterator[Case]:
    for template in templates_of(block):
        yield Case(template, now=now)
        if template.count("{{") > 2:
            yield from (Case(action, now=NOW) for action in actions_of(template))


def _versions() -> Iterator[Case]:
    methods = ("Major", "Minor", "Patch", "Prerelease", "Metadata", "Original")
    parts = " ".join(f"{{{{ $v.{method} }}}}" for method in methods)
    for version in SEMVERS:
        yield Case(f'{{{{ $v := semver "{version}" }}}}{{{{ $v }}}} {parts}')
    for constraint, version in product(CONSTRAINTS, SEMVERS[:13]):
        yield Case(f'{{{{ semverCompare "{constraint}" "{version}" }}}}')


def newer_cases() -> Iterator[Case]:
    """Yield the cases that only sprig 3 supports."""
    seen: set[str] = set()
    for template in templates_of(NEWER):
        for template_text in (
            template,
            *(actions_of(template) if template.count("{{") > 2 else ()),
        ):
            if template_text not in seen:
                seen.add(template_text)
                yield Case(template_text, now=NOW)


def actions_of(template: str) -> Iterator[str]:
    """Yield the actions of a line separately: a failed action would hide the following ones."""
    if any(word in template for word in ("$", "if ", "range ", "with ", "define ", "block ")):
        return
    for part in template.split("{{")[1:]:
        yield "{{" + part.split("}}")[0] + "}}"


MULTILINE = [
    "line one\nline two {{ .missing }}\nline three",
    "line one\n  {{ .text.more }}\n",
    "a\n{{ if .yes }}\n  b\n{{ end }}\nc",
    "a\n{{- if .yes }}\n  b\n{{- end }}\nc",
    "{{ range .list }}\n- {{ . }}\n{{ end }}",
    "{{ range .list -}}\n- {{ . }}\n{{ end -}}",
    "\n\n{{ unknown }}",
    "\n\n{{ if .yes }}\n",
    "\n{{ .text\n| upper\n| unknown }}",
    "\n{{ .text\n| upper\n| fail }}",
    "{{ index .list\n9 }}",
    "é{{ .missing }}",
    "日本\n日本{{ .missing }}",
    "tab\t{{ .missing }}",
    '{{ "a\nb" }}',
    "{{ `a\nb` }}{{ .missing }}",
    "{{/* a\ncomment */}}{{ .missing }}",
    '{{ define "t" }}\n{{ .missing }}\n{{ end }}\n{{ template "t" . }}',
    '{{ define "t" }}\n{{ fail "x" }}\n{{ end }}\n{{ template "t" . }}',
    "{{ with .dict }}\n\n{{ .nope }}{{ end }}",
    "#!/bin/sh\nset -o errexit\nexport A=\"{{ .text }}\"\n{{- range $i, $v := .list }}\necho {{ $i }} '{{ $v }}'\n{{- end }}\n",
    "a\r\n{{- .text -}}\r\nb",
    "{{ .text }}\x00\x01",
    "",
    " ",
    "\n",
    "{{ (.dict.c).nope }}\n",
    "{{ (index .list 99).x }}",
    "{{ .dict.c.d.e.f }}",
    '{{ printf "%s" .missing }}',
    "{{ upper (lower .missing) }}",
    '{{ if eq .missing "a" }}x{{ end }}',
    "{{ $x := index .list 99 }}",
    "{{ range index .list 99 }}{{ end }}",
    "{{ with index .list 99 }}{{ end }}",
    '{{ template "nope" . }}',
    '{{ define "t" }}{{ template "t" . }}{{ end }}',
    "{{ averyveryverylongfunctionnamethatdoesnotexist .text .text .text }}",
    "{{ upper .aVeryVeryLongFieldNameThatIsNotThere.andAnotherOne }}",
]
