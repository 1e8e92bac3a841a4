"""One file a rewrite; `svir_proxy.request.pipeline` has their order."""
