{{/*
The profiles as the objects that the Job applies, and the labels by which it finds those of this
release again. Not objects of the release: see job.yaml.
*/}}
{{- define "pumas.profileLabels" -}}
app.kubernetes.io/part-of: pumas-serving
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "pumas.profileObjects" -}}
{{- range $name, $spec := .Values.profiles }}
---
apiVersion: serving.pumas.dev/v1alpha1
kind: ServingProfile
metadata:
  name: {{ $name | quote }}
  namespace: {{ $.Release.Namespace | quote }}
  labels: {{- include "pumas.profileLabels" $ | nindent 4 }}
spec: {{- toYaml $spec | nindent 2 }}
{{- end }}
{{- end -}}
