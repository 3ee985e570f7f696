"""From a kernel and its arguments to what the compiler makes of them. Knows nothing of HTML or notebooks."""
