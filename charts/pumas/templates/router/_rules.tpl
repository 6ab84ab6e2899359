{{/* What the router may do in the namespaces whose models it serves. It reads no Secrets. */}}
{{- define "pumas.routerRules" -}}
- apiGroups: [serving.pumas.dev]
  resources: [servedmodels]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end -}}
