"""Resources from templates, with fields patched from and to the composite resource."""
