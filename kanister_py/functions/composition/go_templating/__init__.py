"""Go templating: resources composed with Go templates."""
