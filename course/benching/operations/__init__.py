"""One module for each file of kernels/, holding its OPERATION: cases, reference, peers and sizes."""
