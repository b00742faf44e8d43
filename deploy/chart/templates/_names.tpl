{{- define "kanister-py.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kanister-py.selector" -}}
app.kubernetes.io/name: kanister-py
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end -}}

{{- define "kanister-py.labels" -}}
{{ include "kanister-py.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "kanister-py.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "kanister-py.name" .) -}}
{{- end -}}

{{- define "kanister-py.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The namespaces that are watched, as JSON; without any, that of the release. */ -}}
{{- define "kanister-py.watched" -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | uniq | toJson -}}
{{- end -}}

{{- /* What the controller does to ActionSets and Blueprints where it watches. */ -}}
{{- define "kanister-py.watchRules" -}}
- apiGroups: [cr.kanister.io]
  resources: [actionsets]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [cr.kanister.io]
  resources: [actionsets/status]
  verbs: [get, update, patch]
- apiGroups: [cr.kanister.io]
  resources: [blueprints, profiles]
  verbs: [get, list, watch]
- apiGroups: [kanister-py.io]
  resources: [schedules]
  verbs: [get, list, watch]
- apiGroups: [kanister-py.io]
  resources: [schedules/status]
  verbs: [get, update, patch]
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch]
# To see whether Kanister's own controller runs here: two would do everything twice.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list]
{{- if .Values.watch.all }}
# Most ActionSets act on a Namespace: seen by a watch, none of them has to ask for it.
- apiGroups: ['']
  resources: [namespaces]
  verbs: [get, list, watch]
{{- end }}
{{- end -}}

{{- /* What a template sees of the object that an ActionSet acts on; never a Secret. */ -}}
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
