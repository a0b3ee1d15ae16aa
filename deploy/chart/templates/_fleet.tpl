{{- define "accelscope.fleet.name" -}}
{{- include "accelscope.fullname" . }}-fleet
{{- end -}}

{{- define "accelscope.fleet.selectorLabels" -}}
{{- mergeOverwrite (include "accelscope.selectorLabels" . | fromYaml) (dict "app.kubernetes.io/component" "fleet") | toYaml -}}
{{- end -}}

{{- define "accelscope.fleet.labels" -}}
{{- mergeOverwrite (include "accelscope.labels" . | fromYaml) (dict "app.kubernetes.io/component" "fleet") | toYaml -}}
{{- end -}}

{{/* An account of its own: no agent is to have its rights. */}}
{{- define "accelscope.fleet.serviceAccountName" -}}
{{- $account := .Values.fleet.serviceAccount -}}
{{- if $account.create -}}
{{- default (include "accelscope.fleet.name" .) $account.name -}}
{{- else -}}
{{- required "fleet.serviceAccount.name: name the account to use, since fleet.serviceAccount.create is false" $account.name -}}
{{- end -}}
{{- end -}}

{{/* Of the same registry, and with the same tag unless it has its own. */}}
{{- define "accelscope.fleet.image" -}}
{{- $own := .Values.fleet.image -}}
{{- include "accelscope.imageOf" (dict "root" . "image" (mergeOverwrite (deepCopy .Values.image) (dict "repository" $own.repository "tag" ($own.tag | default .Values.image.tag)))) -}}
{{- end -}}

{{/* Where the agents of the fleet's own cluster are. */}}
{{- define "accelscope.fleet.agentsNamespace" -}}
{{- .Values.fleet.ownCluster.agents.namespace | default .Release.Namespace -}}
{{- end -}}

{{/* Are they those of this release, so that how they are asked is known? */}}
{{- define "accelscope.fleet.readsOurAgents" -}}
{{- $own := .Values.fleet.ownCluster -}}
{{- if and .Values.fleet.enabled $own.enabled $own.agents.enabled (include "accelscope.runsAgents" .) (eq (include "accelscope.fleet.agentsNamespace" .) .Release.Namespace) -}}true{{- end -}}
{{- end -}}

{{/* sources.agents of the fleet's own cluster: what follows from the agents' values, and the user's keys over it. */}}
{{- define "accelscope.fleet.ownAgents" -}}
{{- $keys := omit .Values.fleet.ownCluster.agents "enabled" "namespace" -}}
{{- $agents := dict "namespace" (include "accelscope.fleet.agentsNamespace" .) -}}
{{- if ne (include "accelscope.name" .) "accelscope" -}}
{{- $_ := set $agents "labelSelector" (printf "app.kubernetes.io/name=%s,app.kubernetes.io/component=agent" (include "accelscope.name" .)) -}}
{{- end -}}
{{- if include "accelscope.fleet.readsOurAgents" . -}}
{{- $http := .Values.http -}}
{{- if $http.tls.secretName }}{{ $_ := set $agents "scheme" "https" }}{{ end -}}
{{- if $http.tokenSecretName -}}
{{- $_ := set $agents "tokenFile" "/etc/accelscope/agents-token/token" -}}
{{- else if and $http.tokenReview (not $keys.tokenFile) -}}
{{- fail "fleet.ownCluster.agents: the agents ask for tokens that the API server knows (http.tokenReview), and the fleet shows its own to nobody: set http.tokenSecretName beside it, or fleet.ownCluster.agents.tokenFile" -}}
{{- end -}}
{{- if and $http.tls.clientCASecretName (ne $keys.via "direct") -}}
{{- fail "fleet.ownCluster.agents: the agents ask for a client certificate (http.tls.clientCASecretName), which the API server's proxy does not show: set via: direct with clientCertificateFile, clientKeyFile and caFile" -}}
{{- end -}}
{{- end -}}
{{- mergeOverwrite $agents $keys | toYaml -}}
{{- end -}}

{{/* The clusters file: the fleet's own cluster, and the entries of the user as they are. */}}
{{- define "accelscope.fleet.clusters" -}}
{{- $fleet := .Values.fleet -}}
{{- $own := $fleet.ownCluster -}}
{{- $clusters := list -}}
{{- if $own.enabled -}}
{{- $sources := dict -}}
{{- if $own.agents.enabled }}{{ $_ := set $sources "agents" (include "accelscope.fleet.ownAgents" . | fromYaml) }}{{ end -}}
{{- if $own.exec.enabled }}{{ $_ := set $sources "exec" (omit $own.exec "enabled") }}{{ end -}}
{{- if $own.annotations.enabled }}{{ $_ := set $sources "annotations" dict }}{{ end -}}
{{- if not $sources }}{{ fail "fleet.ownCluster: switch one of agents, exec and annotations on, or set fleet.ownCluster.enabled to false" }}{{ end -}}
{{- $account := "/var/run/secrets/kubernetes.io/serviceaccount" -}}
{{- $server := dict "url" $own.url "tokenFile" (printf "%s/token" $account) "caFile" (printf "%s/ca.crt" $account) -}}
{{- $entry := dict "id" $own.id "server" $server "sources" $sources -}}
{{- with $own.name }}{{ $_ := set $entry "name" . }}{{ end -}}
{{- $clusters = append $clusters $entry -}}
{{- end -}}
{{- $clusters = concat $clusters ($fleet.clusters | default list) -}}
{{- $ids := list -}}
{{- range $clusters -}}
{{- if has .id $ids }}{{ fail (printf "fleet.clusters: the id %s is given to two clusters" .id) }}{{ end -}}
{{- $ids = append $ids .id -}}
{{- end -}}
{{- if not $ids }}{{ fail "fleet.clusters: there is none, and fleet.ownCluster.enabled is false" }}{{ end -}}
{{- with $fleet.auth.tokenReviewCluster -}}
{{- if not (has . $ids) }}{{ fail (printf "fleet.auth.tokenReviewCluster: no cluster has the id %s; there are: %s" . (join ", " $ids)) }}{{ end -}}
{{- end -}}
{{- toYaml (dict "clusters" $clusters) -}}
{{- end -}}

{{/* Does the fleet's own cluster say whose tokens are good? */}}
{{- define "accelscope.fleet.reviewsHere" -}}
{{- $fleet := .Values.fleet -}}
{{- if and $fleet.ownCluster.enabled (eq ($fleet.auth.tokenReviewCluster | default "") $fleet.ownCluster.id) -}}true{{- end -}}
{{- end -}}

{{- define "accelscope.fleet.isGuarded" -}}
{{- if or .Values.fleet.auth.tokensSecretName .Values.fleet.auth.tokenReviewCluster -}}true{{- end -}}
{{- end -}}

{{/* Settings that a value of the chart stands for, because more depends on them. */}}
{{- define "accelscope.fleet.ownSettings" -}}
clustersFile: fleet.clusters
listenHost: fleet.port
listenPort: fleet.port
tlsCertificate: fleet.tls.secretName
tlsKey: fleet.tls.secretName
tokensFile: fleet.auth.tokensSecretName
tokenReviewCluster: fleet.auth.tokenReviewCluster
insecureNoAuth: fleet.auth.insecureNoAuth
stateFolder: fleet.state
{{- end -}}

{{- define "accelscope.fleet.config" -}}
{{- $fleet := .Values.fleet -}}
{{- $config := deepCopy ($fleet.config | default dict) -}}
{{- range $key, $value := include "accelscope.fleet.ownSettings" . | fromYaml -}}
{{- if hasKey $config $key }}{{ fail (printf "fleet.config.%s: set %s instead" $key $value) }}{{ end -}}
{{- end -}}
{{- if include "accelscope.fleet.isGuarded" . -}}
{{- if $fleet.auth.insecureNoAuth }}{{ fail "fleet.auth.insecureNoAuth: with tokens this means nothing; leave out one of the two" }}{{ end -}}
{{- else if $fleet.auth.insecureNoAuth -}}
{{- $_ := set $config "insecureNoAuth" true -}}
{{- else -}}
{{- fail "fleet.auth: say who may read: tokensSecretName (a Secret with tokens.yaml; docs/fleet.md tells how to make one), tokenReviewCluster (the id of a cluster whose API server vouches for tokens), or insecureNoAuth: true for everybody who reaches the port" -}}
{{- end -}}
{{- /* Empty: every address, of IPv4 and of IPv6. */ -}}
{{- $config = mergeOverwrite $config (dict
  "clustersFile" "/etc/accelscope/clusters/clusters.yaml"
  "listenHost" ""
  "listenPort" (int $fleet.port)
  "stateFolder" "/var/lib/accelscope") -}}
{{- if $fleet.tls.secretName -}}
{{- $_ := set $config "tlsCertificate" "/etc/accelscope/tls/tls.crt" -}}
{{- $_ := set $config "tlsKey" "/etc/accelscope/tls/tls.key" -}}
{{- end -}}
{{- if $fleet.auth.tokensSecretName }}{{ $_ := set $config "tokensFile" "/etc/accelscope/tokens/tokens.yaml" }}{{ end -}}
{{- with $fleet.auth.tokenReviewCluster }}{{ $_ := set $config "tokenReviewCluster" . }}{{ end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Settings that the fleet takes up without a restart; a test compares them with its declarations. */}}
{{- define "accelscope.fleet.reloadable" -}}
logLevel logFormat
{{- end -}}

{{/* Changes when the pod must be replaced for the new settings. The list of clusters is re-read. */}}
{{- define "accelscope.fleet.restartChecksum" -}}
{{- $config := include "accelscope.fleet.config" . | fromYaml -}}
{{- range splitList " " (include "accelscope.fleet.reloadable" .) }}{{ $_ := unset $config . }}{{ end -}}
{{- toYaml $config | sha256sum | trunc 16 -}}
{{- end -}}

{{/* Ports that the fleet must reach, as far as they can be known: kubeconfigs are in Secrets. */}}
{{- define "accelscope.fleet.egressPorts" -}}
{{- $ports := list -}}
{{- range (include "accelscope.fleet.clusters" . | fromYaml).clusters -}}
{{- $sources := .sources | default dict -}}
{{- range list (dig "server" "url" "" .) (dig "server" "proxyUrl" "" .) (dig "prometheus" "url" "" $sources) -}}
{{- with . -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default (ternary 443 80 (hasPrefix "https:" .)) -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "agents" "via" "" $sources) "direct" }}{{ $ports = append $ports (dig "agents" "port" 9400 $sources | int) }}{{ end -}}
{{- end -}}
{{- $own := .Values.fleet.ownCluster -}}
{{- if and $own.enabled $own.agents.enabled (eq $own.agents.via "direct") }}{{ $ports = append $ports (int .Values.http.port) }}{{ end -}}
{{- range concat .Values.networkPolicy.apiServerPorts (.Values.fleet.egressPorts | default list) }}{{ $ports = append $ports (int .) }}{{ end -}}
{{- uniq $ports | sortAlpha | toYaml -}}
{{- end -}}

{{/*
What an account needs in a cluster to read it, from (root, account, component, prefix, agents: a namespace or "", via,
exec: namespaces, reviews). Each part is a role of its own, so that one can be left out and seen to be missing.
*/}}
{{- define "accelscope.fleet.rights" -}}
{{- $about := . -}}
{{- $name := include "accelscope.clusterName" .root -}}
{{- $parts := list (dict "part" "nodes" "why" "Nodes with their labels, and the annotations that collectors write on them." "namespace" "" "rules" (list
    (dict "apiGroups" (list "") "resources" (list "nodes") "verbs" (list "get" "list" "watch")))) -}}
{{- with .agents -}}
{{- $rules := list (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "get" "list" "watch")) -}}
{{- if ne $about.via "direct" }}{{ $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods/proxy") "verbs" (list "get")) }}{{ end -}}
{{- $parts = append $parts (dict "part" "agents" "why" (ternary "Agents: where they are; they are asked straight." "Agents: where they are, and asking them through the API server." (eq $about.via "direct")) "namespace" . "rules" $rules) -}}
{{- end -}}
{{- range .exec -}}
{{- $parts = append $parts (dict "part" "exec" "why" "nvidia-smi in driver pods. It is a right to run any command in any pod of this namespace; \"get\" is for Kubernetes\n# before 1.35, \"create\" for later ones." "namespace" . "rules" (list
    (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "get" "list" "watch"))
    (dict "apiGroups" (list "") "resources" (list "pods/exec") "verbs" (list "get" "create")))) -}}
{{- end -}}
{{- if .reviews -}}
{{- $parts = append $parts (dict "part" "reviews" "why" "Whose tokens are good." "namespace" "" "rules" (list
    (dict "apiGroups" (list "authentication.k8s.io") "resources" (list "tokenreviews") "verbs" (list "create"))
    (dict "apiGroups" (list "authorization.k8s.io") "resources" (list "subjectaccessreviews") "verbs" (list "create")))) -}}
{{- end -}}
{{- $labels := mergeOverwrite (include "accelscope.labels" .root | fromYaml) (dict "app.kubernetes.io/component" .component) -}}
{{- range $parts }}
---
# {{ .why }}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "Role" "ClusterRole" (ne .namespace "") }}
metadata:
  name: {{ $about.prefix }}-{{ .part }}.{{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- toYaml $labels | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne .namespace "") }}
metadata:
  name: {{ $about.prefix }}-{{ .part }}.{{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- toYaml $labels | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ ternary "Role" "ClusterRole" (ne .namespace "") }}
  name: {{ $about.prefix }}-{{ .part }}.{{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $about.account }}
    namespace: {{ $about.root.Release.Namespace }}
{{- end }}
{{- end -}}
