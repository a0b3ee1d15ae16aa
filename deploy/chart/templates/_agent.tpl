{{/*
What one vendor's agent gets beyond what all have, from (root, name, agent): `privileged`, `capabilities`, `root`
(must it be user 0), `env`, `hostPaths`, `scratch` (a writable /tmp), `resources`, `runtimeClassName`.
*/}}
{{- define "accelscope.privileges" -}}
{{- $values := .root.Values -}}
{{- $agent := .agent -}}
{{- $privileged := $agent.privileged -}}
{{- $runtimeClassName := $agent.runtimeClassName -}}
{{- $capabilities := list -}}
{{- $env := dict -}}
{{- $paths := $agent.hostPaths -}}
{{- $scratch := false -}}
{{- $memory := "" -}}
{{- if ne .name "any" }}{{ $_ := set $env "READERS" .name }}{{ end -}}
{{- if and $values.nodeObject.npuAnnotation (has .name (list "ascend" "any")) }}{{ $_ := set $env "NPU_ANNOTATION" "true" }}{{ end -}}

{{- if and (eq .name "nvidia") $agent.driverRoot -}}
{{- $privileged = true -}}
{{- $runtimeClassName = "" -}}
{{- $paths = append $paths (dict "path" $agent.driverRoot "mountPath" "/run/nvidia/driver" "type" "Directory" "follow" true) -}}
{{- end -}}

{{- if eq .name "amd" -}}
{{- if $agent.openFiles }}{{ $capabilities = append $capabilities "SYS_PTRACE" }}{{ end -}}
{{- if $agent.tools.enabled -}}
{{- $privileged = true -}}
{{- $scratch = true -}}
{{- $memory = "256Mi" -}}
{{- $root := $agent.tools.rocmRoot -}}
{{- $paths = append $paths (dict "path" $root "type" "Directory") -}}
{{- $_ := set $env "AMD_SMI_PATH" (printf "%s/bin/amd-smi" $root) -}}
{{- $_ := set $env "ROCM_SMI_PATH" (printf "%s/bin/rocm-smi" $root) -}}
{{- end -}}
{{- end -}}

{{- if eq .name "ascend" -}}
{{- $scratch = true -}}
{{- with $agent.driver.root -}}
{{- $paths = append $paths (dict "path" . "type" "Directory") -}}
{{- $_ := set $env "ASCEND_DRIVER_ROOT" . -}}
{{- end -}}
{{- with $agent.driver.npuSmi -}}
{{- $paths = append $paths (dict "path" . "type" "File") -}}
{{- $_ := set $env "NPU_SMI_PATH" . -}}
{{- end -}}
{{- with $agent.driver.dcmi }}{{ $paths = append $paths (dict "path" . "mountPath" "/usr/local/dcmi" "type" "Directory") }}{{ end -}}
{{- end -}}

{{- if $scratch }}{{ $_ := set $env "HOME" "/tmp" }}{{ end -}}
{{- $resources := deepCopy $values.resources -}}
{{- /* Tools need more than the usual limit; a limit that somebody set stays. */ -}}
{{- if and $memory (eq (dig "limits" "memory" "64Mi" $resources) "64Mi") }}{{ $_ := set $resources "limits" (merge (dict "memory" $memory) ($resources.limits | default dict)) }}{{ end -}}
{{- $nfd := eq (include "accelscope.featureLabels" .root) "nfd" -}}
{{- dict
  "privileged" $privileged
  "capabilities" $capabilities
  "root" (or $privileged $values.attribution.podResources $nfd (gt (len $capabilities) 0))
  "env" (mergeOverwrite $env $agent.env)
  "hostPaths" $paths
  "scratch" $scratch
  "resources" (mergeOverwrite $resources $agent.resources)
  "runtimeClassName" $runtimeClassName
  | toYaml -}}
{{- end -}}

{{/* Any of the labels is enough; a node that agents.any has is not ours. */}}
{{- define "accelscope.affinity" -}}
{{- $any := .root.Values.agents.any -}}
{{- $kept := and $any.enabled (ne .name "any") -}}
{{- $terms := list -}}
{{- range (.agent.nodes | default (list "")) -}}
{{- $expressions := list -}}
{{- if . -}}
{{- $pair := splitn "=" 2 . -}}
{{- if contains "=" . -}}
{{- $expressions = append $expressions (dict "key" $pair._0 "operator" "In" "values" (list $pair._1)) -}}
{{- else -}}
{{- $expressions = append $expressions (dict "key" . "operator" "Exists") -}}
{{- end -}}
{{- end -}}
{{- if $kept -}}
{{- range $any.nodes -}}
{{- $pair := splitn "=" 2 . -}}
{{- if contains "=" . -}}
{{- $expressions = append $expressions (dict "key" $pair._0 "operator" "NotIn" "values" (list $pair._1)) -}}
{{- else -}}
{{- $expressions = append $expressions (dict "key" . "operator" "DoesNotExist") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $expressions }}{{ $terms = append $terms (dict "matchExpressions" $expressions) }}{{ end -}}
{{- end -}}
{{- if .agent.affinity -}}
{{- toYaml .agent.affinity -}}
{{- else if $terms -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- toYaml $terms | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "accelscope.securityContext" -}}
{{- $context := dict "readOnlyRootFilesystem" true -}}
{{- if .privileges.privileged -}}
{{- $_ := set $context "privileged" true -}}
{{- else -}}
{{- $_ := set $context "allowPrivilegeEscalation" false -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- with .privileges.capabilities }}{{ $_ := set $capabilities "add" . }}{{ end -}}
{{- $_ := set $context "capabilities" $capabilities -}}
{{- end -}}
{{- mergeOverwrite $context .root.Values.securityContext | toYaml -}}
{{- end -}}

{{- define "accelscope.podSecurityContext" -}}
{{- $context := dict "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if .privileges.root -}}
{{- $context = merge (dict "runAsUser" 0 "runAsGroup" 0) $context -}}
{{- else -}}
{{- $context = merge (dict "runAsUser" 65532 "runAsGroup" 65532 "runAsNonRoot" true "fsGroup" 65532) $context -}}
{{- end -}}
{{- mergeOverwrite $context .root.Values.podSecurityContext | toYaml -}}
{{- end -}}
