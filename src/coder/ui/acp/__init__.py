"""The Agent Client Protocol on stdio."""
