{{/* Names, labels, and what the chart reads from the configuration. */}}

{{- define "slackwater.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "slackwater.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "slackwater.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "slackwater.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "slackwater.selector" -}}
app.kubernetes.io/name: {{ include "slackwater.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "slackwater.labels" -}}
{{ include "slackwater.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "slackwater.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "slackwater.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "slackwater.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The configuration as JSON. Fails if it is not TOML. */}}
{{- define "slackwater.parsed" -}}
{{- if not (trim .Values.config) }}
{{- fail "\nconfig is empty. It has the configuration of `slackwater serve`, as TOML, such as:\n\n  config: |\n    listen = \"0.0.0.0:8080\"\n\n    [discovery]\n    kubernetes = \"shop/web:http\"\n" }}
{{- end }}
{{- $parsed := fromToml .Values.config }}
{{- /* fromToml has its error in this field. */}}
{{- if hasKey $parsed "Error" }}
{{- fail (printf "\nconfig is not TOML: %s" $parsed.Error) }}
{{- end }}
{{- toJson $parsed }}
{{- end }}

{{/* A duration such as 1m30s in seconds, rounded up. */}}
{{- define "slackwater.seconds" -}}
{{- $seconds := 0.0 }}
{{- $units := dict "ns" 0.000000001 "us" 0.000001 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 }}
{{- range regexFindAll "[0-9.]+ *(ns|us|ms|s|m|h)" (toString .) -1 }}
{{- $number := regexFind "[0-9.]+" . | float64 }}
{{- $seconds = addf $seconds (mulf $number (get $units (regexFind "[a-z]+" .))) }}
{{- end }}
{{- ceil $seconds | int }}
{{- end }}

{{/* The listeners as JSON: a list of name and port. */}}
{{- define "slackwater.listeners" -}}
{{- $parsed := include "slackwater.parsed" . | fromJson }}
{{- $addresses := list }}
{{- range $parsed.listeners }}
{{- $addresses = append $addresses .address }}
{{- end }}
{{- if $parsed.listen }}
{{- $addresses = concat $addresses (kindIs "slice" $parsed.listen | ternary $parsed.listen (list $parsed.listen)) }}
{{- end }}
{{- if not $addresses }}
{{- fail "\nconfig has no listener: set listen = \"0.0.0.0:8080\", or [[listeners]]" }}
{{- end }}
{{- $listeners := list }}
{{- range $index, $address := $addresses }}
{{- if or (hasPrefix "127." $address) (hasPrefix "localhost:" $address) (hasPrefix "[::1]" $address) }}
{{- fail (printf "\nconfig listens at %s, where only the pod itself reaches it: use 0.0.0.0 or [::]" $address) }}
{{- end }}
{{- $port := regexFind "[0-9]+$" $address | int }}
{{- $name := ternary "http" (printf "http-%d" (add1 $index)) (eq $index 0) }}
{{- $listeners = append $listeners (dict "name" $name "port" $port) }}
{{- end }}
{{- toJson $listeners }}
{{- end }}

{{/* The name of the ConfigMap. It changes with the ports: pods that read another ConfigMap are replaced,
and those from before keep the ports to which the Service still sends their clients. */}}
{{- define "slackwater.configMap" -}}
{{- $ports := list }}
{{- range include "slackwater.listeners" . | fromJsonArray }}
{{- $ports = append $ports (int .port) }}
{{- end }}
{{- printf "%s-%s" (include "slackwater.fullname" .) (toJson $ports | sha256sum | trunc 8) }}
{{- end }}

{{/* All addresses of the pod: those of both families if a listener is written in brackets. Pods whose
only addresses are of IPv6 need such a listener in any case, and nodes without IPv6 have none. */}}
{{- define "slackwater.anyAddress" -}}
{{- $parsed := include "slackwater.parsed" . | fromJson }}
{{- $any := "0.0.0.0" }}
{{- $written := kindIs "slice" $parsed.listen | ternary $parsed.listen (list $parsed.listen) }}
{{- range $parsed.listeners }}
{{- $written = append $written .address }}
{{- end }}
{{- range compact $written }}
{{- if hasPrefix "[" . }}
{{- $any = "[::]" }}
{{- end }}
{{- end }}
{{- $any }}
{{- end }}

{{/* The port of the admin server. */}}
{{- define "slackwater.adminPort" -}}
{{- $parsed := include "slackwater.parsed" . | fromJson }}
{{- $address := dig "admin" "listen" "127.0.0.1:9900" $parsed }}
{{- if eq $address "none" }}
{{- fail "\nconfig has admin.listen = \"none\", but the readiness probe needs the admin server" }}
{{- end }}
{{- regexFind "[0-9]+$" $address }}
{{- end }}

{{/* Namespaces with services that are discovered, as JSON. */}}
{{- define "slackwater.namespaces" -}}
{{- $parsed := include "slackwater.parsed" . | fromJson }}
{{- $written := list }}
{{- $sections := prepend (values (default dict $parsed.services)) $parsed }}
{{- range $sections }}
{{- $written = append $written (dig "discovery" "kubernetes" "" .) }}
{{- end }}
{{- $own := dig "kubernetes" "namespace" .Release.Namespace $parsed }}
{{- $namespaces := list }}
{{- range compact $written }}
{{- $namespaces = append $namespaces (contains "/" . | ternary (first (splitList "/" .)) $own) }}
{{- end }}
{{- /* A kubeconfig has its own credentials. */}}
{{- if dig "kubernetes" "kubeconfig" "" $parsed }}
{{- $namespaces = list }}
{{- end }}
{{- $namespaces | uniq | sortAlpha | toJson }}
{{- end }}

{{/* What a reload cannot change, hashed, so that a change of it replaces the pods. docs/how-to/reload.md lists it. */}}
{{- define "slackwater.restart" -}}
{{- $parsed := include "slackwater.parsed" . | fromJson }}
{{- $restart := pick $parsed "workers" "log" "access_log" "request_id" "decisions" }}
{{- $admin := omit (default dict $parsed.admin) "token_file" }}
{{- $tracing := omit (default dict $parsed.tracing) "sample" "parent" }}
{{- $connections := dig "limits" "connections_max" "" $parsed }}
{{- toJson (list $restart $admin $tracing $connections) | sha256sum }}
{{- end }}
