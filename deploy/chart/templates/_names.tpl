{{- define "accelscope.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Truncated so that a vendor's name and a pod's suffix fit into 63 characters. */}}
{{- define "accelscope.fullname" -}}
{{- $name := include "accelscope.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects; contains the namespace, since two namespaces may have releases of the same name. */}}
{{- define "accelscope.clusterName" -}}
{{- printf "%s.%s" (include "accelscope.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- define "accelscope.image" -}}
{{- include "accelscope.imageOf" (dict "root" . "image" .Values.image) -}}
{{- end -}}

{{/* From (root, image). */}}
{{- define "accelscope.imageOf" -}}
{{- $registry := required "image.registry: required; set it to the registry that you pushed the image to (docs/install.md)" .image.registry -}}
{{- printf "%s/%s:%s" (trimSuffix "/" $registry) .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}

{{- define "accelscope.selectorLabels" -}}
app.kubernetes.io/name: {{ include "accelscope.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "accelscope.labels" -}}
{{ include "accelscope.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The vendors with an agent of their own, without `any`. */}}
{{- define "accelscope.vendors" -}}
{{- keys (omit .Values.agents "any") | sortAlpha | toYaml -}}
{{- end -}}

{{/* An enabled agent, for examples. */}}
{{- define "accelscope.someAgent" -}}
{{- $on := list -}}
{{- range $name, $agent := .Values.agents -}}
{{- if $agent.enabled }}{{ $on = append $on $name }}{{ end -}}
{{- end -}}
{{- last $on -}}
{{- end -}}
