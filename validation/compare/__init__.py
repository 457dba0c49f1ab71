"""How two modules or two runs differ: by structure, and tensor by tensor."""
