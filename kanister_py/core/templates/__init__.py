"""From arguments and parameters to rendered arguments, in two template languages."""
