{{/* Which features are enabled. A template returns text: "true", or nothing. */}}

{{/* The chart can also be installed without agents, for the device plugin only. */}}
{{- define "accelscope.runsAgents" -}}
{{- range .Values.agents }}{{ if .enabled }}true{{ end }}{{ end -}}
{{- end -}}

{{/* An unquoted off is a boolean in YAML. */}}
{{- define "accelscope.podSource" -}}
{{- .Values.attribution.pods | default "off" -}}
{{- end -}}

{{- define "accelscope.featureLabels" -}}
{{- .Values.nodeObject.featureLabels | default "off" -}}
{{- end -}}

{{/* Claims come from the kubelet's socket, so this needs podResources. */}}
{{- define "accelscope.resourceSlices" -}}
{{- if and .Values.attribution.resourceSlices .Values.attribution.podResources -}}true{{- end -}}
{{- end -}}

{{/* Does this agent, from (root, name), write the annotation of the old NPU collectors? Only agents for such chips do. */}}
{{- define "accelscope.writesNpuAnnotation" -}}
{{- if and .root.Values.nodeObject.npuAnnotation (has .name (list "ascend" "any")) -}}true{{- end -}}
{{- end -}}

{{- define "accelscope.asksKubelet" -}}
{{- if eq (include "accelscope.podSource" .) "kubelet" -}}true{{- end -}}
{{- end -}}

{{/* Does any feature that all agents share need the API server? */}}
{{- define "accelscope.readsApiServer" -}}
{{- if or (eq (include "accelscope.podSource" .) "api-server") (include "accelscope.resourceSlices" .) .Values.attribution.nodeLabels .Values.http.tokenReview -}}true{{- end -}}
{{- end -}}

{{/* The same for one agent, from (root, name). */}}
{{- define "accelscope.needsToken" -}}
{{- $writes := has (include "accelscope.account" .) (include "accelscope.writers" .root | fromYamlArray) -}}
{{- if or (include "accelscope.readsApiServer" .root) (include "accelscope.asksKubelet" .root) $writes -}}true{{- end -}}
{{- end -}}

{{/*
Settings that must be set through a value of the chart. In `config` the agent would lack the permission, the mount or the
user that they need.
*/}}
{{- define "accelscope.ownSettings" -}}
exporterPort: http.port
tlsCertificate: http.tls.secretName
tlsKey: http.tls.secretName
tlsClientCa: http.tls.clientCASecretName
tokenFile: http.tokenSecretName
tokenReview: http.tokenReview
readers: agents
podSource: attribution.pods
podResourcesSocket: attribution.podResources
resourceSlices: attribution.resourceSlices
podLabels: attribution.podLabels
nodeLabels: attribution.nodeLabels
passwdFile: attribution.userNames
stateFolder: attribution.stateFolder
npuAnnotation: nodeObject.npuAnnotation
devicesAnnotation: nodeObject.devicesAnnotation
annotationInterval: nodeObject.annotationInterval
annotationHeartbeat: nodeObject.annotationHeartbeat
featureLabels: nodeObject.featureLabels
featureDomains: nodeObject.featureDomains
featureFileFolder: nodeObject.featureFileFolder
{{- end -}}

{{/* The dialects in config.dialect, a list or a comma-separated string. */}}
{{- define "accelscope.dialects" -}}
{{- $dialects := (.Values.config | default dict).dialect | default list -}}
{{- if kindIs "string" $dialects }}{{ $dialects = regexSplit "\\s*,\\s*" (trim $dialects) -1 }}{{ end -}}
{{- toYaml $dialects -}}
{{- end -}}

{{/* The configuration file: the user's settings, and those of the enabled features. */}}
{{- define "accelscope.config" -}}
{{- $config := deepCopy (.Values.config | default dict) -}}
{{- range $key, $value := include "accelscope.ownSettings" . | fromYaml -}}
{{- if hasKey $config $key }}{{ fail (printf "config.%s: set %s instead, which also adds what it needs" $key $value) }}{{ end -}}
{{- end -}}
{{- $_ := set $config "exporterPort" (int .Values.http.port) -}}
{{- if .Values.dcgmCounters -}}
{{- if not (has "dcgm" (include "accelscope.dialects" . | fromYamlArray)) }}{{ fail "dcgmCounters needs dcgm in config.dialect" }}{{ end -}}
{{- if $config.dcgmCounters }}{{ fail "dcgmCounters and config.dcgmCounters: set only one of them" }}{{ end -}}
{{- $_ := set $config "dcgmCounters" "/etc/accelscope/settings/dcgm-counters.csv" -}}
{{- end -}}
{{- with .Values.attribution -}}
{{- $_ := set $config "podSource" (include "accelscope.podSource" $) -}}
{{- $_ := set $config "resourceSlices" (eq (include "accelscope.resourceSlices" $) "true") -}}
{{- if not .podResources }}{{ $_ := set $config "podResourcesSocket" "" }}{{ end -}}
{{- if .podLabels }}{{ $_ := set $config "podLabels" .podLabels }}{{ end -}}
{{- if .nodeLabels }}{{ $_ := set $config "nodeLabels" .nodeLabels }}{{ end -}}
{{- if .userNames }}{{ $_ := set $config "passwdFile" "/host/etc/passwd" }}{{ end -}}
{{- end -}}
{{- with .Values.nodeObject -}}
{{- if .devicesAnnotation }}{{ $_ := set $config "devicesAnnotation" true }}{{ end -}}
{{- if or .npuAnnotation .devicesAnnotation -}}
{{- if ne (toString .annotationInterval) "3s" }}{{ $_ := set $config "annotationInterval" .annotationInterval }}{{ end -}}
{{- $_ := set $config "annotationHeartbeat" .annotationHeartbeat -}}
{{- end -}}
{{- $mode := include "accelscope.featureLabels" $ -}}
{{- if ne $mode "off" -}}
{{- $_ := set $config "featureLabels" $mode -}}
{{- $_ := set $config "featureDomains" .featureDomains -}}
{{- end -}}
{{- if eq $mode "nfd" }}{{ $_ := set $config "featureFileFolder" .featureFileFolder }}{{ end -}}
{{- end -}}
{{- with .Values.http -}}
{{- if .tls.secretName -}}
{{- $_ := set $config "tlsCertificate" "/etc/accelscope/tls/tls.crt" -}}
{{- $_ := set $config "tlsKey" "/etc/accelscope/tls/tls.key" -}}
{{- end -}}
{{- if .tls.clientCASecretName -}}
{{- if not .tls.secretName }}{{ fail "http.tls.clientCASecretName needs http.tls.secretName" }}{{ end -}}
{{- $_ := set $config "tlsClientCa" "/etc/accelscope/client-ca/ca.crt" -}}
{{- end -}}
{{- if .tokenSecretName }}{{ $_ := set $config "tokenFile" "/etc/accelscope/token/token" }}{{ end -}}
{{- if .tokenReview }}{{ $_ := set $config "tokenReview" true }}{{ end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Settings that the agent reloads without a restart; a test compares them with the declarations. */}}
{{- define "accelscope.reloadable" -}}
logLevel logFormat collectionInterval deviceTimeout expectedDevices metricAllowlist metricDenylist maxProcessSeries labels dialect amdDialectPrefix dcgmCounters dcgmHostnameLabel shares
{{- end -}}

{{/* A checksum that changes if the DaemonSets must be restarted for new settings. */}}
{{- define "accelscope.restartChecksum" -}}
{{- $config := include "accelscope.config" . | fromYaml -}}
{{- range splitList " " (include "accelscope.reloadable" .) }}{{ $_ := unset $config . }}{{ end -}}
{{- toYaml $config | sha256sum | trunc 16 -}}
{{- end -}}
