"""Who has what, and moving it: signed records, manifests, the chunk store, download planning, transports."""
