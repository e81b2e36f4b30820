{{/* Labels of everything in the chart; the component is added by each. */}}
{{- define "rocketmq-ha.labels" -}}
app.kubernetes.io/name: rocketmq-ha
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Labels by which pods are found; they never change. Takes (list root component). */}}
{{- define "rocketmq-ha.selector" -}}
app.kubernetes.io/name: rocketmq-ha
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Name of one of our images. Takes (list root name). */}}
{{- define "rocketmq-ha.image" -}}
{{- $root := index . 0 -}}
{{ $root.Values.images.registry }}rocketmq-ha/{{ index . 1 }}:{{ $root.Values.images.tag | default $root.Chart.AppVersion }}
{{- end }}

{{- define "rocketmq-ha.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "rocketmq-ha.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The namespaces that the operator watches, as a JSON list: empty for all. */}}
{{- define "rocketmq-ha.watched" -}}
{{- if .Values.operator.clusterWide -}}
[]
{{- else -}}
{{ .Values.operator.watchNamespaces | default (list .Release.Namespace) | toJson }}
{{- end -}}
{{- end }}

{{/*
What the operator may do in the namespaces it watches: what it was seen to do there by the API server's audit log, and no more
(tests/kube/test_rights.py). Server-side apply of what is not there yet asks for `create` beside `patch`.
*/}}
{{- define "rocketmq-ha.rules" -}}
- apiGroups: [rocketmq-ha.dev]
  resources: [rocketmqclusters, brokergroups, sloreports]
  verbs: [get, list, watch]
# A finalizer holds one that brokers are to forget first.
- apiGroups: [rocketmq-ha.dev]
  resources: [topics, consumergroups]
  verbs: [get, list, watch, patch]
- apiGroups: [rocketmq-ha.dev]
  resources:
    - rocketmqclusters/status
    - brokergroups/status
    - failovers/status
    - sloreports/status
    - topics/status
    - consumergroups/status
  verbs: [patch]
- apiGroups: [rocketmq-ha.dev]
  resources: [failovers]
  verbs: [get, list, watch, create, patch, delete]
# Children name their owner so that its deletion waits for them; the admission of that asks for this right.
- apiGroups: [rocketmq-ha.dev]
  resources: [rocketmqclusters/finalizers, brokergroups/finalizers, sloreports/finalizers]
  verbs: [update]
# By name, here and below: before the operator writes a name first, it asks whether somebody else has it.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# One by its name, the token of a cluster's controllers: it can look for no other, nor see which there are.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch{{ if .Values.operator.mayGiveUpVolumes }}, delete{{ end }}]
# What belongs to proxies goes when there are none any more.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
# Reports: a CronJob makes their Jobs, and the operator reads how those ended.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
# Read about one StatefulSet or volume claim at a time, when a pod or a volume is missing: nothing else says why.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, create]
{{- end }}
