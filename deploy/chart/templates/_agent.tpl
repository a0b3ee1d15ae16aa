{{/*
Vendor-specific parts of an agent's pod, from (root, name, agent): `privileged`, `capabilities`, `root` (run as user 0),
`env`, `hostPaths`, `scratch` (a writable /tmp), `resources`, `runtimeClassName`.
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

{{- /* Values that only some vendors have: see agents in values.yaml. */ -}}
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
{{- /* At the same path as on the node, since the device plugin passes these paths to containers. */ -}}
{{- $paths = append $paths (dict "path" . "type" "Directory") -}}
{{- if ne . "/usr/local/dcmi" }}{{ $_ := set $env "LD_LIBRARY_PATH" . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- if $scratch }}{{ $_ := set $env "HOME" "/tmp" }}{{ end -}}
{{- $resources := deepCopy ($values.resources | default dict) -}}
{{- /* Tools need more than the default limit; a limit set by the user is kept. */ -}}
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
The agent's state folder on the node, from (root, name); empty: none. Each agent of a node has its own. Without
podResources the agent is not user 0 and could not write to it.
*/}}
{{- define "accelscope.stateFolder" -}}
{{- $attribution := .root.Values.attribution -}}
{{- if and $attribution.podResources $attribution.stateFolder -}}
{{- printf "%s/%s-%s-%s" (trimSuffix "/" $attribution.stateFolder) .root.Release.Namespace (include "accelscope.fullname" .root) .name -}}
{{- end -}}
{{- end -}}

{{/* Match expression for a node label "key=value" or "key", from (label, with, without): operators with and without value. */}}
{{- define "accelscope.expression" -}}
{{- $pair := splitn "=" 2 .label -}}
{{- if contains "=" .label -}}
{{- dict "key" $pair._0 "operator" .with "values" (list $pair._1) | toYaml -}}
{{- else -}}
{{- dict "key" .label "operator" .without | toYaml -}}
{{- end -}}
{{- end -}}

{{/*
Affinity from the labels, one of which must match, or from the user. Nodes of agents.any are always excluded; since terms
are alternatives, each term contains the exclusion.
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
