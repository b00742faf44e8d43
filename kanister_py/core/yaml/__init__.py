"""YAML as Kubernetes reads it: documents with positions, scalars, loose decoding and emitters."""
