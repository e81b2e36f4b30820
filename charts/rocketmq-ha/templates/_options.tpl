{{/* Name of the operator's ServiceAccount. */}}
{{- define "rocketmq-ha.operatorAccount" -}}
{{ .Values.operator.serviceAccount.name | default (printf "%s-operator" .Release.Name) }}
{{- end }}

{{/* A pod's scheduling fields except tolerations. Takes the values of operator, measure or test. */}}
{{- define "rocketmq-ha.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* An ingress rule of a NetworkPolicy; empty without peers, because an empty `from` would allow every peer. Takes (list ports peers). */}}
{{- define "rocketmq-ha.ingressRule" -}}
{{- if index . 1 -}}
- from:
    {{- index . 1 | toYaml | nindent 4 }}
  ports:
    {{- range index . 0 }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end }}

{{/* A rule of a NetworkPolicy for outgoing connections. Takes (list ports peers); nothing without peers. */}}
{{- define "rocketmq-ha.egressRule" -}}
{{- if index . 1 -}}
- to:
    {{- index . 1 | toYaml | nindent 4 }}
  ports:
    {{- range index . 0 }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end }}

{{/* The rule by which a pod finds names. The port of the DNS server's pod may differ from that of its Service. */}}
{{- define "rocketmq-ha.egressToNames" -}}
- ports:
    {{- range .Values.networkPolicies.dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{/* Endpoints of a PodMonitor. Takes (list root names-of-ports). */}}
{{- define "rocketmq-ha.metricsEndpoints" -}}
{{- $interval := (index . 0).Values.monitoring.podMonitor.interval }}
{{- range index . 1 }}
- {port: {{ . }}, path: /metrics, interval: {{ $interval }}, scrapeTimeout: {{ $interval }}}
{{- end }}
{{- end }}
