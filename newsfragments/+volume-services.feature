Block storage shows `os-hosts`, `capabilities`, clusters (none), and freezes and thaws backends; a restored backup has its volume's metadata again, and its name unless another one was asked for.
