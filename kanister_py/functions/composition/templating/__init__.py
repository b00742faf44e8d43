"""What functions that render templates share: sources, manifests, what is made of them."""
