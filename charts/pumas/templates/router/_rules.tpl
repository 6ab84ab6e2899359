{{/* What the router may do in the namespaces whose models it serves. It reads no Secrets,
and of a model it writes the number of pods alone. */}}
{{- define "pumas.routerRules" -}}
- apiGroups: [serving.pumas.dev]
  resources: [servedmodels]
  verbs: [list, watch]
- apiGroups: [serving.pumas.dev]
  resources: [servedmodels/scale]
  verbs: [patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end -}}
