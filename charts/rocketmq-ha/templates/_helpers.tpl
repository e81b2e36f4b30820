{{/* Labels of every object in the chart; each object adds its component. */}}
{{- define "rocketmq-ha.labels" -}}
app.kubernetes.io/name: rocketmq-ha
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Selector labels of pods; they never change. Takes (list root component). */}}
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

{{/* The namespaces that the operator watches, as a JSON list; empty for all. */}}
{{- define "rocketmq-ha.watched" -}}
{{- if .Values.operator.clusterWide -}}
[]
{{- else -}}
{{ .Values.operator.watchNamespaces | default (list .Release.Namespace) | toJson }}
{{- end -}}
{{- end }}

{{/*
The operator's permissions in the namespaces that it watches: exactly those that the API server's audit log shows as used
(tests/kube/test_rights.py). Server-side apply of a new object needs `create` beside `patch`.
*/}}
{{- define "rocketmq-ha.rules" -}}
- apiGroups: [rocketmq-ha.dev]
  resources: [brokergroups, sloreports]
  verbs: [get, list, watch]
# `patch` is for finalizers: on objects that the operator must first delete from the brokers, and on clusters whose controllers others
# use.
- apiGroups: [rocketmq-ha.dev]
  resources: [rocketmqclusters, topics, consumergroups, users]
  verbs: [get, list, watch, patch]
- apiGroups: [rocketmq-ha.dev]
  resources:
    - rocketmqclusters/status
    - brokergroups/status
    - failovers/status
    - sloreports/status
    - topics/status
    - consumergroups/status
    - users/status
  verbs: [patch]
- apiGroups: [rocketmq-ha.dev]
  resources: [failovers]
  verbs: [get, list, watch, create, patch, delete]
# Owner references with blockOwnerDeletion: their admission requires this permission.
- apiGroups: [rocketmq-ha.dev]
  resources: [rocketmqclusters/finalizers, brokergroups/finalizers, sloreports/finalizers, users/finalizers]
  verbs: [update]
# `get`, here and below: before the operator first writes a name, it checks whether another owner uses that name.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# Secrets of the clusters that the chart names: without `list` the operator cannot discover other Secrets. `create` has no name that
# Kubernetes could check; a Secret that exists is not overwritten by it.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  {{- if not (has "*" .Values.operator.clusters) }}
  resourceNames:
    {{- range .Values.operator.clusters }}
    - {{ . }}-controller-token
    - {{ . }}-broker-credentials
    - {{ . }}-ca
    - {{ . }}-controller-tls
    - {{ . }}-member-tls
    {{- end }}
  {{- end }}
  verbs: [get, patch]
{{- if and .Values.operator.authoritySecrets (not (has "*" .Values.operator.clusters)) }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- toYaml .Values.operator.authoritySecrets | nindent 4 }}
  verbs: [get]
{{- end }}
{{- if .Values.operator.certManager }}
# Certificates of cert-manager for clusters with an issuer, and the Secrets that cert-manager makes for them. cert-manager writes these.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, list, create, patch, delete]
{{- if not (has "*" .Values.operator.clusters) }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- range $cluster := .Values.operator.clusters }}
    {{- range list "n0" "n1" "n2" "n3" "n4" "groups" "nameserver" "proxy" "route-front" }}
    - {{ $cluster }}-issued-{{ . }}
    {{- end }}
    {{- end }}
  verbs: [get]
{{- end }}
{{- end }}
{{- if and .Values.operator.userSecrets (not (has "*" .Values.operator.clusters)) }}
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- toYaml .Values.operator.userSecrets | nindent 4 }}
  verbs: [get, patch]
{{- end }}
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch{{ if .Values.operator.mayGiveUpVolumes }}, delete{{ end }}]
# `delete`, here and below: the operator deletes objects of the proxies when the cluster no longer has proxies.
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
# Reports: a CronJob creates their Jobs, and the operator reads the Jobs' results.
- apiGroups: [batch]
  resources: [cronjobs]
  verbs: [get, create, patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch]
# `list`: if a pod or a volume is missing, only the Events of its StatefulSet or volume claim give the reason.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list, create]
{{- end }}

{{/* The ConfigMap that gives the programs of a component their log level while they run.
     Arguments: root, component, level, and the namespace if it is another one. */}}
{{- define "rocketmq-ha.logLevelConfigMap" -}}
{{- $root := index . 0 -}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $root.Release.Name }}-{{ index . 1 }}-log-level
  {{- with rest (rest (rest .)) }}
  namespace: {{ index . 0 }}
  {{- end }}
  labels:
    {{- include "rocketmq-ha.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ index . 1 }}
data:
  log-level: {{ index . 2 }}
{{- end }}

{{/* The mount and the volume of that ConfigMap. */}}
{{- define "rocketmq-ha.logLevelMount" -}}
{name: log-level, mountPath: /etc/rocketmq, readOnly: true}
{{- end }}
{{- define "rocketmq-ha.logLevelVolume" -}}
{name: log-level, configMap: {name: {{ (index . 0).Release.Name }}-{{ index . 1 }}-log-level}}
{{- end }}
