{{- define "accelscope.fleet.name" -}}
{{- include "accelscope.fullname" . }}-fleet
{{- end -}}

{{- define "accelscope.fleet.selectorLabels" -}}
{{- mergeOverwrite (include "accelscope.selectorLabels" . | fromYaml) (dict "app.kubernetes.io/component" "fleet") | toYaml -}}
{{- end -}}

{{- define "accelscope.fleet.labels" -}}
{{- mergeOverwrite (include "accelscope.labels" . | fromYaml) (dict "app.kubernetes.io/component" "fleet") | toYaml -}}
{{- end -}}

{{/* A separate ServiceAccount, so that agents do not get the fleet's permissions. */}}
{{- define "accelscope.fleet.serviceAccountName" -}}
{{- $account := .Values.fleet.serviceAccount -}}
{{- if $account.create -}}
{{- default (include "accelscope.fleet.name" .) $account.name -}}
{{- else -}}
{{- required "fleet.serviceAccount.name: name the account to use, since fleet.serviceAccount.create is false" $account.name -}}
{{- end -}}
{{- end -}}

{{/* From the same registry, with the same tag unless fleet.image.tag is set. */}}
{{- define "accelscope.fleet.image" -}}
{{- $own := .Values.fleet.image -}}
{{- include "accelscope.imageOf" (dict "root" . "image" (mergeOverwrite (deepCopy .Values.image) (dict "repository" $own.repository "tag" ($own.tag | default .Values.image.tag)))) -}}
{{- end -}}

{{/* Namespace of the agents in the fleet's own cluster. */}}
{{- define "accelscope.fleet.agentsNamespace" -}}
{{- .Values.fleet.ownCluster.agents.namespace | default .Release.Namespace -}}
{{- end -}}

{{/* Are these the agents of this release, so that port and TLS are known? */}}
{{- define "accelscope.fleet.readsOurAgents" -}}
{{- $own := .Values.fleet.ownCluster -}}
{{- if and .Values.fleet.enabled $own.enabled $own.agents.enabled (include "accelscope.runsAgents" .) (eq (include "accelscope.fleet.agentsNamespace" .) .Release.Namespace) -}}true{{- end -}}
{{- end -}}

{{/* sources.agents of the fleet's own cluster: derived from the agents' values, overridden by the user's keys. */}}
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
{{- fail "fleet.ownCluster.agents: the agents require tokens that the API server reviews (http.tokenReview), and the fleet does not send its own token: also set http.tokenSecretName, or fleet.ownCluster.agents.tokenFile" -}}
{{- end -}}
{{- if and $http.tls.clientCASecretName (ne $keys.via "direct") -}}
{{- fail "fleet.ownCluster.agents: the agents require a client certificate (http.tls.clientCASecretName), which the API server's proxy does not send: set via: direct with clientCertificateFile, clientKeyFile and caFile" -}}
{{- end -}}
{{- end -}}
{{- mergeOverwrite $agents $keys | toYaml -}}
{{- end -}}

{{/* The clusters file: the fleet's own cluster, and the user's entries. */}}
{{- define "accelscope.fleet.clusters" -}}
{{- $fleet := .Values.fleet -}}
{{- $own := $fleet.ownCluster -}}
{{- $clusters := list -}}
{{- if $own.enabled -}}
{{- $sources := dict -}}
{{- if $own.agents.enabled }}{{ $_ := set $sources "agents" (include "accelscope.fleet.ownAgents" . | fromYaml) }}{{ end -}}
{{- if $own.exec.enabled }}{{ $_ := set $sources "exec" (omit $own.exec "enabled") }}{{ end -}}
{{- if $own.annotations.enabled }}{{ $_ := set $sources "annotations" dict }}{{ end -}}
{{- if not $sources }}{{ fail "fleet.ownCluster: enable one of agents, exec and annotations, or set fleet.ownCluster.enabled to false" }}{{ end -}}
{{- $account := "/var/run/secrets/kubernetes.io/serviceaccount" -}}
{{- $server := dict "url" $own.url "tokenFile" (printf "%s/token" $account) "caFile" (printf "%s/ca.crt" $account) -}}
{{- $entry := dict "id" $own.id "server" $server "sources" $sources -}}
{{- with $own.name }}{{ $_ := set $entry "name" . }}{{ end -}}
{{- $clusters = append $clusters $entry -}}
{{- end -}}
{{- $clusters = concat $clusters ($fleet.clusters | default list) -}}
{{- $ids := list -}}
{{- range $clusters -}}
{{- if has .id $ids }}{{ fail (printf "fleet.clusters: two clusters have the id %s" .id) }}{{ end -}}
{{- $ids = append $ids .id -}}
{{- end -}}
{{- if not $ids }}{{ fail "fleet.clusters: the list is empty, and fleet.ownCluster.enabled is false" }}{{ end -}}
{{- with $fleet.auth.tokenReviewCluster -}}
{{- if not (has . $ids) }}{{ fail (printf "fleet.auth.tokenReviewCluster: no cluster has the id %s; known ids: %s" . (join ", " $ids)) }}{{ end -}}
{{- end -}}
{{- toYaml (dict "clusters" $clusters) -}}
{{- end -}}

{{/* Does the fleet's own cluster review tokens? */}}
{{- define "accelscope.fleet.reviewsHere" -}}
{{- $fleet := .Values.fleet -}}
{{- if and $fleet.ownCluster.enabled (eq ($fleet.auth.tokenReviewCluster | default "") $fleet.ownCluster.id) -}}true{{- end -}}
{{- end -}}

{{- define "accelscope.fleet.isGuarded" -}}
{{- if or .Values.fleet.auth.tokensSecretName .Values.fleet.auth.tokenReviewCluster -}}true{{- end -}}
{{- end -}}

{{/* Settings that must be set through a value of the chart, because other objects depend on them. */}}
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
{{- if $fleet.auth.insecureNoAuth }}{{ fail "fleet.auth.insecureNoAuth: cannot be combined with tokens; set only one of the two" }}{{ end -}}
{{- else if $fleet.auth.insecureNoAuth -}}
{{- $_ := set $config "insecureNoAuth" true -}}
{{- else -}}
{{- fail "fleet.auth: set tokensSecretName (a Secret with tokens.yaml; see docs/fleet.md), tokenReviewCluster (the id of a cluster whose API server reviews tokens), or insecureNoAuth: true to allow everyone" -}}
{{- end -}}
{{- /* Empty: all IPv4 and IPv6 addresses. */ -}}
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

{{/* Settings that the fleet reloads without a restart; a test compares them with the declarations. */}}
{{- define "accelscope.fleet.reloadable" -}}
logLevel logFormat
{{- end -}}

{{/* A checksum that changes if the pod must be restarted for new settings. The list of clusters is reloaded. */}}
{{- define "accelscope.fleet.restartChecksum" -}}
{{- $config := include "accelscope.fleet.config" . | fromYaml -}}
{{- range splitList " " (include "accelscope.fleet.reloadable" .) }}{{ $_ := unset $config . }}{{ end -}}
{{- toYaml $config | sha256sum | trunc 16 -}}
{{- end -}}

{{/* Ports that the fleet must reach, as far as they are known: kubeconfigs are in Secrets. */}}
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
Roles that an account needs to read a cluster, from (root, account, component, prefix, agents: a namespace or "", via,
exec: namespaces, reviews). One role per source.
*/}}
{{- define "accelscope.fleet.rights" -}}
{{- $about := . -}}
{{- $name := include "accelscope.clusterName" .root -}}
{{- $parts := list (dict "part" "nodes" "why" "Nodes with their labels, and the annotations that collectors write." "namespace" "" "rules" (list
    (dict "apiGroups" (list "") "resources" (list "nodes") "verbs" (list "get" "list" "watch")))) -}}
{{- with .agents -}}
{{- $rules := list (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "get" "list" "watch")) -}}
{{- if ne $about.via "direct" }}{{ $rules = append $rules (dict "apiGroups" (list "") "resources" (list "pods/proxy") "verbs" (list "get")) }}{{ end -}}
{{- $parts = append $parts (dict "part" "agents" "why" (ternary "Discovery of the agents, which are read directly." "Discovery of the agents, and access through the API server's proxy." (eq $about.via "direct")) "namespace" . "rules" $rules) -}}
{{- end -}}
{{- range .exec -}}
{{- $parts = append $parts (dict "part" "exec" "why" "nvidia-smi in driver pods. Permits any command in any pod of this namespace; \"get\" is for Kubernetes\n# before 1.35, \"create\" for later ones." "namespace" . "rules" (list
    (dict "apiGroups" (list "") "resources" (list "pods") "verbs" (list "get" "list" "watch"))
    (dict "apiGroups" (list "") "resources" (list "pods/exec") "verbs" (list "get" "create")))) -}}
{{- end -}}
{{- if .reviews -}}
{{- $parts = append $parts (dict "part" "reviews" "why" "Review of tokens." "namespace" "" "rules" (list
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
