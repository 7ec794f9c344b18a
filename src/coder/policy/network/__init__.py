"""The network by domain: a command's door to the hosts of `sandbox.network.allow`."""
