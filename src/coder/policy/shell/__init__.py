"""From a shell line to its verdict: two readers, simple commands, what each part does."""
