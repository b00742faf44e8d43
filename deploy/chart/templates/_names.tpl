{{- define "kanister-py.name" -}}
{{- $chart := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains $chart .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $chart | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kanister-py.labels" -}}
app.kubernetes.io/name: kanister-py
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /*
"true" if Helm has access to a cluster. Empty for `helm template` and tools that render without a
cluster, such as Argo CD, because `lookup` returns nothing there.
*/ -}}
{{- define "kanister-py.seesCluster" -}}
{{- if lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "cluster-admin" -}}true{{- end -}}
{{- end -}}

{{- /*
The Deployments as JSON: name, features, ServiceAccount and resources. They are separate so that
a failure of one does not affect the other. The first one serves the webhook.
*/ -}}
{{- define "kanister-py.deployments" -}}
{{- $name := include "kanister-py.name" . -}}
{{- $runs := .Values.actionsets.enabled -}}
{{- $composes := .Values.compositions.enabled -}}
{{- if not (or $runs $composes) -}}
{{- fail "actionsets.enabled and compositions.enabled are both false; enable at least one of them" -}}
{{- end -}}
{{- if and .Values.webhook.compositions (not $composes) -}}
{{- fail "webhook.compositions requires compositions.enabled; without it, the webhook would refuse every change of another controller's revisions" -}}
{{- end -}}
{{- $separate := and $composes (or (not $runs) .Values.compositions.ownDeployment) -}}
{{- $deployments := list -}}
{{- if $runs -}}
{{- $deployments = append $deployments (dict
      "name" $name "component" "controller"
      "runs" true "composes" (and $composes (not $separate))
      "account" (.Values.serviceAccount.name | default $name)
      "createsAccount" .Values.serviceAccount.create
      "annotations" .Values.serviceAccount.annotations
      "replicas" .Values.replicas
      "resources" .Values.resources) -}}
{{- end -}}
{{- if $separate -}}
{{- $own := printf "%s-compositions" $name -}}
{{- $deployments = append $deployments (dict
      "name" $own "component" "compositions"
      "runs" false "composes" true
      "account" (.Values.compositions.serviceAccount.name | default $own)
      "createsAccount" .Values.compositions.serviceAccount.create
      "annotations" .Values.compositions.serviceAccount.annotations
      "replicas" .Values.compositions.replicas
      "resources" .Values.compositions.resources) -}}
{{- end -}}
{{- range $index, $deployment := $deployments -}}
{{- $_ := set $deployment "namespace" $.Release.Namespace -}}
{{- $_ := set $deployment "webhook" (and $.Values.webhook.enabled (not $.Values.partition) (eq $index 0)) -}}
{{- $_ := set $deployment "certificate" (ternary "kanister-py-webhook" (printf "%s-tls" $deployment.name) $deployment.webhook) -}}
{{- $_ := set $deployment "selector" (dict
      "app.kubernetes.io/name" "kanister-py"
      "app.kubernetes.io/instance" $.Release.Name
      "app.kubernetes.io/component" .component) -}}
{{- end -}}
{{- toJson $deployments -}}
{{- end -}}

{{- /* A duration such as 1m30s in seconds, rounded up. */ -}}
{{- define "kanister-py.seconds" -}}
{{- $total := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|h|m|s)" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $factor := get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0) $unit -}}
{{- $total = addf $total (mulf (trimSuffix $unit . | float64) $factor) -}}
{{- end -}}
{{- ceil $total | int -}}
{{- end -}}

{{- define "kanister-py.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /*
The ServiceAccounts of the composition controllers as JSON. During an upgrade that moves them to another
Deployment, the old pods keep their permissions until they have stopped; the next upgrade removes these.
*/ -}}
{{- define "kanister-py.composers" -}}
{{- $accounts := list (include "kanister-py.deployments" . | fromJsonArray | last).account -}}
{{- $name := include "kanister-py.name" . -}}
{{- range list $name (printf "%s-compositions" $name) -}}
{{- $pod := dig "spec" "template" "spec" dict (lookup "apps/v1" "Deployment" $.Release.Namespace . | default dict) -}}
{{- range $pod.containers -}}
{{- if has "--enable-compositions" (.args | default list) -}}
{{- $accounts = append $accounts $pod.serviceAccountName -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $accounts | uniq | toJson -}}
{{- end -}}

{{- /* Namespace in which packages of functions run. */ -}}
{{- define "kanister-py.functionsNamespace" -}}
{{- .Values.compositions.functionsNamespace | default .Release.Namespace -}}
{{- end -}}

{{- /* The watched namespaces as JSON. Defaults to the release namespace. */ -}}
{{- define "kanister-py.watched" -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | uniq | toJson -}}
{{- end -}}

{{- /* Rules for ActionSets, Blueprints and Schedules in the watched namespaces. */ -}}
{{- define "kanister-py.watchRules" -}}
- apiGroups: [cr.kanister.io]
  resources: [actionsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [cr.kanister.io]
  resources: [actionsets/status]
  verbs: [update]
- apiGroups: [cr.kanister.io]
  resources: [blueprints]
  verbs: [get, list, watch]
- apiGroups: [cr.kanister.io]
  resources: [profiles]
  verbs: [get]
- apiGroups: [kanister-py.io]
  resources: [schedules]
  # patch: the web page of Schedules suspends and resumes them for users who have this permission.
  verbs: [get, list, watch, patch]
# With ReferenceGrants, owners of a namespace allow access from ActionSets of other namespaces.
- apiGroups: [kanister-py.io]
  resources: [referencegrants]
  verbs: [list]
- apiGroups: [kanister-py.io]
  resources: [schedules/status]
  verbs: [update]
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch]
{{- if .Values.notify.origins }}
- apiGroups: ['']
  resources: [secrets]
  resourceNames: {{ toJson .Values.notify.secrets }}
  verbs: [get]
{{- end }}
# Used to detect Kanister's own controller, because two controllers would run every ActionSet twice.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list]
{{- if .Values.watch.all }}
# Many ActionSets act on a Namespace. A watch avoids a request for each of them.
- apiGroups: ['']
  resources: [namespaces]
  verbs: [get, list, watch]
{{- end }}
{{- end -}}

{{- /* Rules to read the object that an ActionSet acts on, for templates. Secrets are not included. */ -}}
{{- define "kanister-py.objectRules" -}}
- apiGroups: ['']
  resources: [namespaces, persistentvolumeclaims]
  verbs: [get]
- apiGroups: ['']
  resources: [pods]
  verbs: [get, list]
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [get]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
{{- end -}}
