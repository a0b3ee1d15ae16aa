{{- define "accelscope.monitoring.labels" -}}
{{- mergeOverwrite (include "accelscope.labels" . | fromYaml) (dict "app.kubernetes.io/component" "monitoring") | toYaml -}}
{{- end -}}

{{/*
The groups of rules/*.yaml. They contain Prometheus templates, so the files are parsed and not rendered. Without agents
in this release, the alert about absent agents is left out.
*/}}
{{- define "accelscope.ruleGroups" -}}
{{- $given := .Values.prometheusRule -}}
{{- $off := $given.disabledAlerts | default list -}}
{{- $known := list -}}
{{- $groups := list -}}
{{- range $file := list "rules/recording.yaml" "rules/alerts.yaml" -}}
{{- range $group := ($.Files.Get $file | fromYaml).groups -}}
{{- $kept := list -}}
{{- range $rule := $group.rules -}}
{{- if $rule.alert -}}
{{- $known = append $known $rule.alert -}}
{{- $_ := set $rule "labels" (mergeOverwrite (deepCopy ($given.alertLabels | default dict)) $rule.labels) -}}
{{- with $given.runbookBaseUrl -}}
{{- $_ := set $rule.annotations "runbook_url" (printf "%s#%s" . (lower $rule.alert)) -}}
{{- end -}}
{{- end -}}
{{- $absent := and (eq ($rule.alert | default "") "AccelScopeAgentsAbsent") (not (include "accelscope.runsAgents" $)) -}}
{{- if not (or $absent (has ($rule.alert | default "") $off)) -}}
{{- $kept = append $kept $rule -}}
{{- end -}}
{{- end -}}
{{- if $kept -}}
{{- $groups = append $groups (dict "name" $group.name "rules" $kept) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $off -}}
{{- if not (has . $known) }}{{ fail (printf "prometheusRule.disabledAlerts: unknown alert %s; docs/alerts.md lists all alerts, and what replaced those of earlier versions" .) }}{{ end -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}
