{{- define "accelscope.devicePlugin.name" -}}
{{- include "accelscope.fullname" . }}-device-plugin
{{- end -}}

{{- define "accelscope.devicePlugin.selectorLabels" -}}
{{- mergeOverwrite (include "accelscope.selectorLabels" . | fromYaml) (dict "app.kubernetes.io/component" "device-plugin") | toYaml -}}
{{- end -}}

{{- define "accelscope.devicePlugin.labels" -}}
{{- mergeOverwrite (include "accelscope.labels" . | fromYaml) (dict "app.kubernetes.io/component" "device-plugin") | toYaml -}}
{{- end -}}

{{/* A ServiceAccount without permissions: that of the agents may list pods. */}}
{{- define "accelscope.devicePlugin.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- include "accelscope.devicePlugin.name" . -}}
{{- else -}}
{{- include "accelscope.serviceAccountName" . -}}
{{- end -}}
{{- end -}}

{{/* The same path on the node and in the container. */}}
{{- define "accelscope.devicePlugin.folder" -}}
{{- (.Values.devicePlugin.config | default dict).pluginDir | default (printf "%s/device-plugins" .Values.attribution.kubeletFolder) -}}
{{- end -}}

{{/* Access to the driver as configured for the vendor's agent, without the parts that only the agent needs. */}}
{{- define "accelscope.devicePlugin.privileges" -}}
{{- $plugin := .Values.devicePlugin -}}
{{- $agent := deepCopy (index .Values.agents $plugin.vendor) -}}
{{- if hasKey $agent "tools" }}{{ $agent = mergeOverwrite $agent (dict "openFiles" false "tools" (dict "enabled" false)) }}{{ end -}}
{{- $_ := set $agent "hostPaths" (concat ($agent.hostPaths | default list) ($plugin.hostPaths | default list)) -}}
{{- $privileges := include "accelscope.privileges" (dict "root" . "name" $plugin.vendor "agent" $agent) | fromYaml -}}
{{- $env := mergeOverwrite (omit $privileges.env "READERS" "NPU_ANNOTATION") (dict "DEV_ROOT" "/host/dev" "HOST_DEV_ROOT" "/dev") ($plugin.env | default dict) -}}
{{- merge (dict "root" true "env" $env "resources" ($plugin.resources | default dict)) (omit $privileges "env" "resources") | toYaml -}}
{{- end -}}

{{/* Settings that must be set through a value of the chart, because other objects depend on them. */}}
{{- define "accelscope.devicePlugin.ownSettings" -}}
vendor: devicePlugin.vendor
exporterPort: devicePlugin.port
podResourcesSocket: attribution.kubeletFolder
{{- end -}}

{{/*
Settings that the plugin reads only from its file if there is one, as Furiosa's plugin does; a test compares them with the
declarations. The plugin would reject them as flags or environment variables.
*/}}
{{- define "accelscope.devicePlugin.ofTheFile" -}}
defaultPe interval disabledDevices pluginDir socketName resourceName vendor shares partition
{{- end -}}

{{- define "accelscope.devicePlugin.check" -}}
{{- $plugin := .Values.devicePlugin -}}
{{- range $key := splitList " " (include "accelscope.devicePlugin.ofTheFile" .) -}}
{{- $flag := printf "--%s" (kebabcase $key) -}}
{{- $own := index (include "accelscope.devicePlugin.ownSettings" $ | fromYaml) $key -}}
{{- $instead := $own | default (printf "devicePlugin.config.%s" $key) -}}
{{- range $plugin.extraArgs -}}
{{- if eq $flag (first (splitList "=" .)) }}{{ fail (printf "devicePlugin.extraArgs: %s cannot be combined with the plugin's configuration file: set %s instead" . $instead) }}{{ end -}}
{{- end -}}
{{- $variable := snakecase $key | upper -}}
{{- range $place, $env := dict "devicePlugin" $plugin.env (printf "agents.%s" $plugin.vendor) (index $.Values.agents $plugin.vendor).env -}}
{{- if hasKey ($env | default dict) $variable }}{{ fail (printf "%s.env.%s cannot be combined with the device plugin's configuration file: set %s instead" $place $variable $instead) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $taken := dict -}}
{{- if include "accelscope.runsAgents" . }}{{ $_ := set $taken (include "accelscope.fullname" .) "the agents" }}{{ end -}}
{{- if .Values.fleet.enabled -}}
{{- range list "" "-clusters" }}{{ $_ := set $taken (printf "%s%s" (include "accelscope.fleet.name" $) .) "the fleet" }}{{ end -}}
{{- end -}}
{{- if .Values.grafanaDashboards.enabled -}}
{{- range $path, $_ := .Files.Glob "dashboards/*.json" }}{{ $_ := set $taken (printf "%s-dashboard-%s" (include "accelscope.fullname" $) (base $path | trimSuffix ".json")) "the dashboards" }}{{ end -}}
{{- end -}}
{{- with index $taken $plugin.configMapName }}{{ fail (printf "devicePlugin.configMapName: %s is already the ConfigMap of %s: choose another name" $plugin.configMapName .) }}{{ end -}}
{{- end -}}

{{- define "accelscope.devicePlugin.config" -}}
{{- $config := deepCopy (.Values.devicePlugin.config | default dict) -}}
{{- range $key, $value := include "accelscope.devicePlugin.ownSettings" . | fromYaml -}}
{{- if hasKey $config $key }}{{ fail (printf "devicePlugin.config.%s: set %s instead" $key $value) }}{{ end -}}
{{- end -}}
{{- $_ := set $config "vendor" .Values.devicePlugin.vendor -}}
{{- $_ := set $config "pluginDir" (include "accelscope.devicePlugin.folder" .) -}}
{{- toYaml $config -}}
{{- end -}}

{{/*
Settings that the plugin reloads without a restart; a test compares them with the declarations. Not `partition`, which
changes the resource name.
*/}}
{{- define "accelscope.devicePlugin.reloadable" -}}
logLevel logFormat defaultPe shares disabledDevices cdi interval unhealthyAfter healthyAfter unansweredAfter
{{- end -}}

{{/* A checksum that changes if the DaemonSet must be restarted for new settings. */}}
{{- define "accelscope.devicePlugin.restartChecksum" -}}
{{- $config := include "accelscope.devicePlugin.config" . | fromYaml -}}
{{- range splitList " " (include "accelscope.devicePlugin.reloadable" .) }}{{ $_ := unset $config . }}{{ end -}}
{{- toYaml $config | sha256sum | trunc 16 -}}
{{- end -}}
