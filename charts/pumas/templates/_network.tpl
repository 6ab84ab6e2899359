{{/* What both components must reach: names, and the API server, whose address no policy can know. */}}
{{- define "pumas.egress" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end -}}

{{/* Serving pods, in whatever namespace. */}}
{{- define "pumas.servingPods" -}}
- namespaceSelector: {}
  podSelector:
    matchLabels:
      app.kubernetes.io/part-of: pumas-serving
      app.kubernetes.io/managed-by: pumas-operator
{{- end -}}
