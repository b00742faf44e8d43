"""Templates of blueprints, in two languages, rendered over the parameters of an action."""
