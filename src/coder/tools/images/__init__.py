"""Images for models that see: recognized by their bytes, checked, brought within the providers' limits."""
