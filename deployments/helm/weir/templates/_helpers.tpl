{{- define "weir.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "weir.labels" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "weir.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "weir.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "weir.configMap" -}}
{{- default (printf "%s-config" (include "weir.name" .)) .Values.existingConfigMap -}}
{{- end -}}

{{/* weir.yaml: the given config, and the settings that the chart makes. */}}
{{- define "weir.config" -}}
{{- $keys := "/etc/weir-secrets/keys.yaml" -}}
{{- $collector := merge (dict "listen" "0.0.0.0:7401" "keys" $keys) (default dict .Values.config.collector) -}}
{{- $aggregator := merge (dict "listen" "0.0.0.0:7411" "keys" $keys "hot_keys" (int .Values.aggregator.hotKeys)) (default dict .Values.config.aggregator) -}}
{{- $enforcer := merge (dict "listen" "0.0.0.0:7421" "admin" "0.0.0.0:7431" "keys" $keys "without_list" .Values.enforcer.withoutList) (default dict .Values.config.enforcer) -}}
{{- if .Values.enforcer.grpc.enabled -}}
{{- $_ := set $enforcer "grpc" "0.0.0.0:7422" -}}
{{- end -}}
{{- $own := dict "data" "/var/lib/weir" "rules" "rules.yaml" "collector" $collector "aggregator" $aggregator "enforcer" $enforcer -}}
{{- with .Values.inline -}}
{{- $_ := set $own "inline" . -}}
{{- end -}}
{{- merge $own (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* HTTP, or HTTPS where the part's address is encrypted: {root, part}. */}}
{{- define "weir.scheme" -}}
{{- $tls := dig "tls" dict (default dict (get .root.Values.config .part)) | default dict -}}
{{- if $tls.clients -}}
{{- fail (printf "config.%s.tls.clients: Kubernetes' probes have no client certificate; use keys" .part) -}}
{{- end -}}
{{- ternary "HTTPS" "HTTP" (not (empty $tls.cert)) -}}
{{- end -}}

{{/* What the chart cannot run. */}}
{{- define "weir.check" -}}
{{- if not .Values.existingConfigMap -}}
{{- if eq (toString (dig "kafka" "brokers" "" .Values.config)) "embedded" -}}
{{- fail "config.kafka.brokers: the parts run in pods of their own, so name the brokers of your Kafka" -}}
{{- end -}}
{{- if and (eq (toString .Values.config.store) "disk") (gt (int .Values.aggregator.replicas) 1) -}}
{{- fail "config.store: with disk there can be one aggregator; set aggregator.replicas=1, or use Redis" -}}
{{- end -}}
{{- if dig "enforcer" "grpc" "" .Values.config -}}
{{- fail "config.enforcer.grpc: the chart makes the address; set enforcer.grpc.enabled=true" -}}
{{- end -}}
{{- if and .Values.inline .Values.config.inline -}}
{{- fail "config.inline: write it under inline, or leave inline empty" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The pod of a part: {root, part, values, ports, mounts, volumes, node}; node says that it reads the node's logs. */}}
{{- define "weir.pod" -}}
{{- $root := and .node .values.asRoot -}}
metadata:
  labels:
    {{- include "weir.selector" . | nindent 4 }}
  annotations:
    {{- if not .root.Values.existingConfigMap }}
    # Weir reads rules again without a restart, but not the rest of the configuration.
    checksum/config: {{ include "weir.config" .root | sha256sum }}
    {{- end }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "weir.serviceAccount" .root }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 90
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- if $root }}
    runAsUser: 0
    {{- else }}
    runAsNonRoot: true
    runAsUser: 65532
    fsGroup: 65532
    {{- if .node }}
    # The logs of a node belong to root, and its group may read them.
    supplementalGroups: [0]
    {{- end }}
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- if and .node (not $root) .values.journalOwner.enabled }}
  initContainers:
    - name: journal-owner
      image: {{ .values.journalOwner.image | quote }}
      command: [chown, -R, "65532:65532", /var/lib/weir]
      securityContext:
        runAsUser: 0
        runAsNonRoot: false
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL], add: [CHOWN, DAC_READ_SEARCH]}
      resources: {requests: {cpu: 10m, memory: 8Mi}, limits: {memory: 32Mi}}
      volumeMounts:
        - {name: data, mountPath: /var/lib/weir}
  {{- end }}
  containers:
    - name: {{ .part }}
      image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: [{{ .part }}]
      args: [--config, /etc/weir/weir.yaml]
      ports:
        {{- range $name, $port := .ports }}
        - {name: {{ $name }}, containerPort: {{ $port }}}
        {{- end }}
      livenessProbe:
        httpGet: {path: /healthz, port: admin, scheme: {{ include "weir.scheme" (dict "root" .root "part" .part) }}}
        periodSeconds: 10
      readinessProbe:
        httpGet: {path: /readyz, port: admin, scheme: {{ include "weir.scheme" (dict "root" .root "part" .part) }}}
        periodSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]{{ if $root }}, add: [DAC_READ_SEARCH]{{ end }}}
      resources: {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/weir, readOnly: true}
        - {name: secrets, mountPath: /etc/weir-secrets, readOnly: true}
        - {name: data, mountPath: /var/lib/weir}
        {{- range .mounts }}
        - {{ toYaml . | nindent 10 | trim }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "weir.configMap" .root }}}
    - name: secrets
      secret: {secretName: {{ required "existingSecret: pods listen beyond loopback, so they need a Secret with keys.yaml" .root.Values.existingSecret }}}
    {{- range .volumes }}
    - {{ toYaml . | nindent 6 | trim }}
    {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if ne .part "collector" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "weir.selector" . | nindent 10 }}
  {{- end }}
{{- end -}}
