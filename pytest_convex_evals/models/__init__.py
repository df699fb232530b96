"""Models: the registry, and how a name becomes something that can be called."""
