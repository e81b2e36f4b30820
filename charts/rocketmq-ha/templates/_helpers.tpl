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

{{/* What the operator may do in the namespaces it watches. */}}
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
  verbs: [get, patch]
- apiGroups: [rocketmq-ha.dev]
  resources: [failovers]
  verbs: [get, list, create, patch, delete]
# Children name their owner so that its deletion waits for them; the admission of that asks for this right.
- apiGroups: [rocketmq-ha.dev]
  resources: [rocketmqclusters/finalizers, brokergroups/finalizers, sloreports/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, create, patch, delete]
- apiGroups: [""]
  resources: [secrets, persistentvolumeclaims]
  verbs: [get, list, create, patch]
# What belongs to proxies goes when there are none any more.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, patch, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
# Reports: a CronJob makes their Jobs, and the operator reads how those ended.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, list, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}
