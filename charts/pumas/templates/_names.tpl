{{/*
Names of all that the chart renders, and the labels that find it. A name is written here and nowhere
else, so that what refers and what is referred to cannot disagree.

The base is the release's name (with the chart's, unless it is in there already), cut so that the
longest suffix still fits into the 63 characters of a label.
*/}}
{{- define "pumas.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Of the operator: Deployment, ServiceAccount, roles and bindings, NetworkPolicy. */}}
{{- define "pumas.operator" -}}
{{ include "pumas.fullname" . }}-operator
{{- end -}}

{{/* Of the router: the same, and Service, PodDisruptionBudget, autoscaler, ServiceMonitor. */}}
{{- define "pumas.router" -}}
{{ include "pumas.fullname" . }}-router
{{- end -}}

{{/* Of what installs the profiles: Job, ConfigMap, ServiceAccount, role and binding, NetworkPolicy. */}}
{{- define "pumas.profiles" -}}
{{ include "pumas.fullname" . }}-profiles
{{- end -}}

{{/* The Secret that all engine keys are derived from: the administrator's, or the chart's. */}}
{{- define "pumas.keySecret" -}}
{{ .Values.keySecret.existingName | default (printf "%s-key" (include "pumas.fullname" .)) }}
{{- end -}}

{{/* The Secret's one entry. It is also the file's name in the pods. */}}
{{- define "pumas.keyEntry" -}}
key
{{- end -}}

{{/* Where the pods find it. */}}
{{- define "pumas.keyFolder" -}}
/etc/pumas/key
{{- end -}}

{{/* Labels that never change, since a Deployment's selector cannot. Takes `root` and `component`. */}}
{{- define "pumas.selector" -}}
app.kubernetes.io/name: pumas-{{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end -}}

{{/* All labels of an object of a component. Takes `root` and `component`. */}}
{{- define "pumas.labels" -}}
{{ include "pumas.selector" . }}
app.kubernetes.io/component: {{ .component }}
{{ include "pumas.commonLabels" .root }}
{{- end -}}

{{/* Labels of what belongs to no component. */}}
{{- define "pumas.commonLabels" -}}
app.kubernetes.io/part-of: pumas-serving
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
