// Package param has the shape of what a blueprint's templates see.
// The package's name is part of the texts of template errors ("param.TemplateParams").
package param

import (
	"kanister-py.io/oracles/gotemplate/v1"
	"kanister-py.io/oracles/gotemplate/v1alpha1"
)

type TemplateParams struct {
	StatefulSet      *StatefulSetParams
	DeploymentConfig *DeploymentConfigParams
	Deployment       *DeploymentParams
	PVC              *PVCParams
	Namespace        *NamespaceParams
	ArtifactsIn      map[string]v1alpha1.Artifact
	ConfigMaps       map[string]v1.ConfigMap
	Secrets          map[string]v1.Secret
	Time             string
	Profile          *Profile
	Options          map[string]string
	Object           map[string]any
	Phases           map[string]*Phase
	DeferPhase       *Phase
	PodOverride      v1alpha1.JSONMap
	PodAnnotations   map[string]string
	PodLabels        map[string]string
}

type DeploymentConfigParams struct {
	Name                   string
	Namespace              string
	Pods                   []string
	Containers             [][]string
	PersistentVolumeClaims map[string]map[string]string
}

type StatefulSetParams struct {
	Name                   string
	Namespace              string
	Pods                   []string
	Containers             [][]string
	PersistentVolumeClaims map[string]map[string]string
}

type DeploymentParams struct {
	Name                   string
	Namespace              string
	Pods                   []string
	Containers             [][]string
	PersistentVolumeClaims map[string]map[string]string
}

type PVCParams struct {
	Name      string
	Namespace string
}

type NamespaceParams struct {
	Name      string
	Namespace string
}

type Profile struct {
	Location      v1alpha1.Location
	Credential    Credential
	SkipSSLVerify bool
}

type CredentialType string

type Credential struct {
	Type              CredentialType
	KeyPair           *KeyPair
	Secret            *v1.Secret
	KopiaServerSecret *KopiaServerCreds
}

type KeyPair struct {
	ID     string
	Secret string
}

type KopiaServerCreds struct {
	Username       string
	Hostname       string
	Password       string
	Cert           string
	ConnectOptions map[string]int
}

type Phase struct {
	Secrets    map[string]v1.Secret
	ConfigMaps map[string]v1.ConfigMap
	Output     map[string]any
}
