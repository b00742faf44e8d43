// Package v1alpha1 has the shape of the parts of custom resources that a template can reach.
package v1alpha1

type JSONMap map[string]any

type LocationType string

type Location struct {
	Type     LocationType `json:"type"`
	Bucket   string       `json:"bucket"`
	Endpoint string       `json:"endpoint"`
	Prefix   string       `json:"prefix"`
	Region   string       `json:"region"`
}

type Artifact struct {
	KeyValue      map[string]string `json:"keyValue,omitempty"`
	KopiaSnapshot string            `json:"kopiaSnapshot,omitempty"`
}
