"""A Gluon kernel followed without a GPU: barriers, copies, waits, partitions taking turns."""
