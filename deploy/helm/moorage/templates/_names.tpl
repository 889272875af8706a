{{/* The name of everything that the release makes. */}}
{{- define "moorage.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a Deployment's selector, which cannot change later, goes by. */}}
{{- define "moorage.selectorLabels" -}}
app.kubernetes.io/name: {{ default "moorage-scheduler" .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "moorage.labels" -}}
{{ include "moorage.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "moorage.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "moorage.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The subject of all bindings. */}}
{{- define "moorage.subjects" -}}
- kind: ServiceAccount
  name: {{ include "moorage.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The KubeSchedulerConfiguration, as YAML. */}}
{{- define "moorage.config" -}}
{{- $election := dict
      "leaderElect" true
      "resourceName" (include "moorage.fullname" .)
      "resourceNamespace" .Release.Namespace -}}
{{- $own := dict
      "apiVersion" "kubescheduler.config.k8s.io/v1"
      "kind" "KubeSchedulerConfiguration"
      "leaderElection" $election
      "profiles" (list (dict "schedulerName" .Values.schedulerName)) -}}
{{- mergeOverwrite $own (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* Where the lease is; the rights to it must name it. */}}
{{- define "moorage.lease" -}}
{{- (include "moorage.config" . | fromYaml).leaderElection | toYaml -}}
{{- end -}}
