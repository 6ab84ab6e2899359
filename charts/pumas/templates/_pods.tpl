{{/*
What the operator's and the router's pods have in common. All of it passes the `restricted` pod
security level; a test checks that over the rendered objects.
*/}}
{{- define "pumas.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
# Without it the key file would be readable by root alone.
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "pumas.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{/* Variables that both processes read. */}}
{{- define "pumas.environment" -}}
- name: PUMAS_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: PUMAS_WATCH_NAMESPACES
  value: {{ join "," .Values.watchNamespaces | quote }}
- name: PUMAS_KEY_SECRET_FILE
  value: {{ include "pumas.keyFolder" . }}/{{ include "pumas.keyEntry" . }}
- name: PUMAS_PROPAGATION_SECONDS
  value: {{ .Values.propagationSeconds | quote }}
{{- end -}}

{{- define "pumas.volumes" -}}
- name: key
  secret:
    secretName: {{ include "pumas.keySecret" . | quote }}
    # 0440, as YAML 1.1 and 1.2 both read it.
    defaultMode: 288
    items:
      - key: {{ include "pumas.keyEntry" . }}
        path: {{ include "pumas.keyEntry" . }}
# The root file system is read-only.
- name: tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{- define "pumas.volumeMounts" -}}
- name: key
  mountPath: {{ include "pumas.keyFolder" . }}
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- end -}}

{{/* Where the pods may run. Takes the component's values. */}}
{{- define "pumas.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "pumas.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Replicas on different nodes and zones, as long as there are some. Takes `root`, `component`. */}}
{{- define "pumas.spread" -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  # Else a rollout would count the pods that it is about to replace.
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels: {{- include "pumas.selector" $ | nindent 6 }}
{{- end }}
{{- end -}}
