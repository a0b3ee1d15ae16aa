{{/*
Who the agents are at the API server. Those that write the NPUs' annotation are somebody else than the rest, so that no
other vendor's agent may patch nodes for it; what all of them do is granted to both.
*/}}

{{- define "accelscope.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "accelscope.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name: name the account to use, since serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of one agent, from (root, name). An account that somebody else made is that of all agents. */}}
{{- define "accelscope.account" -}}
{{- include "accelscope.serviceAccountName" .root -}}
{{- if and .root.Values.serviceAccount.create (include "accelscope.writesNpuAnnotation" .) -}}-npu-annotation{{- end -}}
{{- end -}}

{{/*
The accounts of the agents that are on, each with the annotations that it is to write. That of devices has the vendor in
its name, so that two agents of one node do not overwrite each other's; without, it is that of agents.any.
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

{{/* Those of them that patch their Node. */}}
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
