"""A few steps of k-means, of flash-kmeans."""

import torch
from flash_kmeans import batch_kmeans_Euclid

torch.manual_seed(0)
x = torch.randn(1, 256, 32)
found, centers, *_ = batch_kmeans_Euclid(x, 8, max_iters=3)
print(f"sum {centers.float().abs().sum().item():.3f}")
