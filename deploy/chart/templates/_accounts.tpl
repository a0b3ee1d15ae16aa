{{/*
ServiceAccounts of the agents. Agents that write the NPU annotation use a second account, so that no other vendor's
agent may patch nodes. Permissions that all agents need are granted to both.
*/}}

{{- define "accelscope.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "accelscope.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account to use, since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The account of one agent, from (root, name). With serviceAccount.create=false all agents use the same account. */}}
{{- define "accelscope.account" -}}
{{- include "accelscope.serviceAccountName" .root -}}
{{- if and .root.Values.serviceAccount.create (include "accelscope.writesNpuAnnotation" .) -}}-npu-annotation{{- end -}}
{{- end -}}

{{/*
The accounts of the enabled agents, each with the annotations that it writes. The devices annotation contains the vendor,
so that two agents of one node do not overwrite each other's; agents.any writes the one without vendor.
*/}}
{{- define "accelscope.accounts" -}}
{{- $accounts := dict -}}
{{- range $name, $agent := .Values.agents -}}
{{- if $agent.enabled -}}
{{- $about := dict "root" $ "name" $name -}}
{{- $account := include "accelscope.account" $about -}}
{{- $annotations := index $accounts $account | default list -}}
{{- if include "accelscope.writesNpuAnnotation" $about }}{{ $annotations = append $annotations "k8s-monitor.io/npu-metrics" }}{{ end -}}
{{- if $.Values.nodeObject.devicesAnnotation }}{{ $annotations = concat $annotations (list "accelscope.io/devices" (printf "accelscope.io/devices.%s" $name)) }}{{ end -}}
{{- $_ := set $accounts $account (uniq $annotations) -}}
{{- end -}}
{{- end -}}
{{- toYaml $accounts -}}
{{- end -}}

{{/* The accounts that patch their Node. */}}
{{- define "accelscope.writers" -}}
{{- $labels := eq (include "accelscope.featureLabels" .) "node" -}}
{{- $writers := list -}}
{{- range $account, $annotations := include "accelscope.accounts" . | fromYaml -}}
{{- if or $labels $annotations }}{{ $writers = append $writers $account }}{{ end -}}
{{- end -}}
{{- toYaml $writers -}}
{{- end -}}

{{/* ClusterRoleBinding, from (root, role, accounts). */}}
{{- define "accelscope.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .role }}
  labels:
    {{- include "accelscope.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
subjects:
  {{- range .accounts }}
  - kind: ServiceAccount
    name: {{ . }}
    namespace: {{ $.root.Release.Namespace }}
  {{- end }}
{{- end -}}
