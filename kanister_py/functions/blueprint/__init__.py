"""Functions that phases of blueprints name: a folder for each, a module for each version."""
