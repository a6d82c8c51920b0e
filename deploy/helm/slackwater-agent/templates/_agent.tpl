{{/*
The agent's templates. Their argument is the chart's context, or for other values in one pod:

  dict "Values" .Values "agent" (dict "protocol" "h2c")
*/}}

{{- define "slackwater-agent.values" -}}
{{- $values := deepCopy (index .Values "slackwater-agent") }}
{{- toJson (mergeOverwrite $values (deepCopy (default dict .agent))) }}
{{- end }}

{{/* The sidecar: an item of initContainers. */}}
{{- define "slackwater-agent.container" -}}
{{- $values := include "slackwater-agent.values" . | fromJson -}}
- name: slackwater-agent
  image: {{ ternary (printf "%s@%s" $values.image.repository $values.image.digest) (printf "%s:%s" $values.image.repository $values.image.tag) (not (empty $values.image.digest)) | quote }}
  imagePullPolicy: {{ $values.image.pullPolicy }}
  # A native sidecar: it starts before the server, and ends after it.
  restartPolicy: Always
  args:
    - agent
    # All addresses of the pod, of both families. The address of the pod itself would need brackets in
    # one family and none in the other, and a Service may use the pod's other address. Beyond the pod's
    # addresses this opens its loopback only, which its own containers alone can reach.
    - --listen={{ $values.address }}:{{ $values.port }}
    - --to={{ $values.to }}
    - --protocol={{ $values.protocol }}
    - --admin=127.0.0.1:{{ $values.adminPort }}
    {{- with $values.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: slackwater
      containerPort: {{ $values.port }}
      protocol: TCP
    - name: slackwater-udp
      containerPort: {{ $values.port }}
      protocol: UDP
  # Ready while the server can be connected to.
  readinessProbe:
    exec:
      command: ["/usr/local/bin/slackwater", "ready", "--admin=127.0.0.1:{{ $values.adminPort }}"]
    periodSeconds: 5
    timeoutSeconds: 3
    failureThreshold: 2
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: ["ALL"]
    seccompProfile:
      type: RuntimeDefault
  resources:
    {{- toYaml $values.resources | nindent 4 }}
  {{- with $values.volumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* For the server's container: its key lifecycle. The kubelet stops sidecars after all others, so
the server must stay until balancers know that the pod is going. */}}
{{- define "slackwater-agent.lifecycle" -}}
{{- $values := include "slackwater-agent.values" . | fromJson -}}
preStop:
  sleep:
    seconds: {{ $values.preStopSeconds }}
{{- end }}

{{/* For the Service: the port of requests, whose name is the key `name` of the argument (default
http), and the port of probes. */}}
{{- define "slackwater-agent.ports" -}}
{{- $values := include "slackwater-agent.values" . | fromJson -}}
- name: {{ default "http" .name }}
  port: {{ default 80 .port }}
  # A number: before Kubernetes 1.32, names of sidecars' ports are not found.
  targetPort: {{ $values.port }}
  protocol: TCP
  {{- if eq $values.protocol "h2c" }}
  appProtocol: kubernetes.io/h2c
  {{- end }}
- name: slackwater-probe
  port: {{ $values.port }}
  targetPort: {{ $values.port }}
  protocol: UDP
{{- end }}
