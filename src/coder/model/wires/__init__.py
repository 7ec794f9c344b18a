"""The wire formats of providers, one package each."""
