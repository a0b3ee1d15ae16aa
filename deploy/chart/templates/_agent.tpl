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
{{- $paths := $agent.hostPaths | default list -}}
{{- $scratch := false -}}
{{- $memory := "" -}}
{{- if ne .name "any" }}{{ $_ := set $env "READERS" .name }}{{ end -}}
{{- if include "accelscope.writesNpuAnnotation" . }}{{ $_ := set $env "NPU_ANNOTATION" "true" }}{{ end -}}

{{- /* What only some vendors' values have: see agents in values.yaml. */ -}}
{{- if $agent.driverRoot -}}
{{- $privileged = true -}}
{{- $runtimeClassName = "" -}}
{{- $paths = append $paths (dict "path" $agent.driverRoot "mountPath" "/run/nvidia/driver" "type" "Directory" "follow" true) -}}
{{- end -}}

{{- if $agent.openFiles }}{{ $capabilities = append $capabilities "SYS_PTRACE" }}{{ end -}}
{{- with $agent.tools }}{{ if .enabled -}}
{{- $privileged = true -}}
{{- $scratch = true -}}
{{- $memory = "256Mi" -}}
{{- $root := .rocmRoot -}}
{{- $paths = append $paths (dict "path" $root "type" "Directory") -}}
{{- $_ := set $env "AMD_SMI_PATH" (printf "%s/bin/amd-smi" $root) -}}
{{- $_ := set $env "ROCM_SMI_PATH" (printf "%s/bin/rocm-smi" $root) -}}
{{- end -}}
{{- end -}}

{{- if hasKey $agent "driver" -}}
{{- $scratch = true -}}
{{- with $agent.driver.root -}}
{{- $paths = append $paths (dict "path" . "type" "Directory") -}}
{{- $_ := set $env "ASCEND_DRIVER_ROOT" . -}}
{{- end -}}
{{- with $agent.driver.npuSmi -}}
{{- $paths = append $paths (dict "path" . "type" "File") -}}
{{- $_ := set $env "NPU_SMI_PATH" . -}}
{{- end -}}
{{- with $agent.driver.dcmi -}}
{{- /* Where the node has it: what the device plugin finds here is what it has containers given of the node. */ -}}
{{- $paths = append $paths (dict "path" . "type" "Directory") -}}
{{- if ne . "/usr/local/dcmi" }}{{ $_ := set $env "LD_LIBRARY_PATH" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- if $scratch }}{{ $_ := set $env "HOME" "/tmp" }}{{ end -}}
{{- $resources := deepCopy ($values.resources | default dict) -}}
{{- /* Tools need more than the usual limit; a limit that somebody set stays. */ -}}
{{- if and $memory (eq (dig "limits" "memory" "64Mi" $resources) "64Mi") }}{{ $_ := set $resources "limits" (merge (dict "memory" $memory) ($resources.limits | default dict)) }}{{ end -}}
{{- $nfd := eq (include "accelscope.featureLabels" .root) "nfd" -}}
{{- dict
  "privileged" $privileged
  "capabilities" $capabilities
  "root" (or $privileged $values.attribution.podResources $nfd (gt (len $capabilities) 0))
  "env" (mergeOverwrite $env ($agent.env | default dict))
  "hostPaths" $paths
  "scratch" $scratch
  "resources" (mergeOverwrite $resources ($agent.resources | default dict))
  "runtimeClassName" $runtimeClassName
  | toYaml -}}
{{- end -}}

{{/*
The node's folder for what this agent keeps over a restart, from (root, name); empty: none. Each agent of a node has its
own. Only pods that hold devices are idle, so that without podResources there is nothing to keep.
*/}}
{{- define "accelscope.stateFolder" -}}
{{- $attribution := .root.Values.attribution -}}
{{- if and $attribution.podResources $attribution.stateFolder -}}
{{- printf "%s/%s-%s-%s" (trimSuffix "/" $attribution.stateFolder) .root.Release.Namespace (include "accelscope.fullname" .root) .name -}}
{{- end -}}
{{- end -}}

{{/* Of a node's labels, "key=value" or "key", from (label, with, without): the operators for it. */}}
{{- define "accelscope.expression" -}}
{{- $pair := splitn "=" 2 .label -}}
{{- if contains "=" .label -}}
{{- dict "key" $pair._0 "operator" .with "values" (list $pair._1) | toYaml -}}
{{- else -}}
{{- dict "key" .label "operator" .without | toYaml -}}
{{- end -}}
{{- end -}}

{{/*
Any of the labels is enough, or the user's own affinity says where; a node that agents.any has is in no case ours.
Terms are alternatives, so each of them must say so.
*/}}
{{- define "accelscope.affinity" -}}
{{- $required := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $affinity := deepCopy (.agent.affinity | default dict) -}}
{{- $terms := list -}}
{{- if $affinity -}}
{{- $terms = dig "nodeAffinity" $required "nodeSelectorTerms" list $affinity -}}
{{- else -}}
{{- range .agent.nodes -}}
{{- $expression := include "accelscope.expression" (dict "label" . "with" "In" "without" "Exists") | fromYaml -}}
{{- $terms = append $terms (dict "matchExpressions" (list $expression)) -}}
{{- end -}}
{{- end -}}
{{- $others := list -}}
{{- if and .root.Values.agents.any.enabled (ne .name "any") -}}
{{- range .root.Values.agents.any.nodes -}}
{{- $others = append $others (include "accelscope.expression" (dict "label" . "with" "NotIn" "without" "DoesNotExist") | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- $fenced := list -}}
{{- range ($terms | default (list dict)) -}}
{{- $expressions := concat (.matchExpressions | default list) $others -}}
{{- $term := omit . "matchExpressions" -}}
{{- if $expressions }}{{ $_ := set $term "matchExpressions" $expressions }}{{ end -}}
{{- if $term }}{{ $fenced = append $fenced $term }}{{ end -}}
{{- end -}}
{{- if $fenced -}}
{{- $affinity = mergeOverwrite $affinity (dict "nodeAffinity" (dict $required (dict "nodeSelectorTerms" $fenced))) -}}
{{- end -}}
{{- if $affinity }}{{ toYaml $affinity }}{{ end -}}
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
{{- mergeOverwrite $context (.root.Values.securityContext | default dict) | toYaml -}}
{{- end -}}

{{- define "accelscope.podSecurityContext" -}}
{{- $context := dict "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if .privileges.root -}}
{{- $context = merge (dict "runAsUser" 0 "runAsGroup" 0) $context -}}
{{- else -}}
{{- $context = merge (dict "runAsUser" 65532 "runAsGroup" 65532 "runAsNonRoot" true "fsGroup" 65532) $context -}}
{{- end -}}
{{- mergeOverwrite $context (.root.Values.podSecurityContext | default dict) | toYaml -}}
{{- end -}}
