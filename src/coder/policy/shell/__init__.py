"""Static analysis of shell lines: two independent parsers, simple commands, the effect of each part."""
