{{- define "accelscope.metricsPath" -}}
{{- (.Values.config | default dict).metricsPath | default "/metrics" -}}
{{- end -}}

{{/*
The labels `namespace`, `pod` and `container` name the workload. honorLabels keeps them. The target's own labels, which
name the agent, are dropped, so that unallocated devices are not attributed to the agent.
*/}}
{{- define "accelscope.endpoint" -}}
{{- $endpoint := dict
  "port" "metrics"
  "path" (include "accelscope.metricsPath" .)
  "honorLabels" true
  "relabelings" (list
    (dict "sourceLabels" (list "__meta_kubernetes_pod_node_name") "targetLabel" "node")
    (dict "action" "labeldrop" "regex" "namespace|pod|container"))
-}}
{{- if .Values.http.tls.secretName }}{{ $_ := set $endpoint "scheme" "https" }}{{ end -}}
{{- with .Values.scrape.interval }}{{ $_ := set $endpoint "interval" . }}{{ end -}}
{{- with .Values.scrape.timeout }}{{ $_ := set $endpoint "scrapeTimeout" . }}{{ end -}}
{{- $copies := list -}}
{{- $dialects := include "accelscope.dialects" . | fromYamlArray -}}
{{- if has "dcgm" $dialects -}}
{{- range list "namespace" "pod" "container" -}}
{{- $copies = append $copies (include "accelscope.exportedCopy" (dict "names" "DCGM_FI_.+" "label" .) | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- if has "openshift" $dialects -}}
{{- $names := "accelerator_(?:gpu_utilization|power_usage_watts|sm_clock_hertz|memory_clock_hertz)" -}}
{{- range list "namespace" "pod" "container" -}}
{{- $copies = append $copies (include "accelscope.exportedCopy" (dict "names" $names "label" .) | fromYaml) -}}
{{- end -}}
{{- end -}}
{{- if has "npu-exporter" $dialects -}}
{{- $names := "npu_chip_.+|npu_container_info|container_npu_.+" -}}
{{- $copies = append $copies (include "accelscope.exportedCopy" (dict "names" $names "label" "namespace") | fromYaml) -}}
{{- end -}}
{{- if $copies }}{{ $_ := set $endpoint "metricRelabelings" $copies }}{{ end -}}
{{- $own := deepCopy (.Values.scrape.endpoint | default dict) -}}
{{- range list "relabelings" "metricRelabelings" -}}
{{- if hasKey $own . }}{{ $_ := set $own . (concat (dig . list $endpoint) (index $own . | default list)) }}{{ end -}}
{{- end -}}
{{- mergeOverwrite $endpoint $own | toYaml -}}
{{- end -}}

{{/* The original exporters are scraped without honorLabels, and their dashboards use the resulting exported_* labels. */}}
{{- define "accelscope.exportedCopy" -}}
sourceLabels: [__name__, {{ .label }}]
separator: ;
regex: (?:{{ .names }});(.+)
targetLabel: exported_{{ .label }}
replacement: $1
{{- end -}}
