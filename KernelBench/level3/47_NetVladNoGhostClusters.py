"""NetVLAD pooling without ghost clusters (ghost_clusters is 0): every one of the num_features descriptors of
x (batch_size, num_features, feature_size) is assigned softly, by softmax of its batch-normalised products, to
num_clusters centres; per cluster, the weighted sum of descriptors minus the weights' sum times a second,
learned centre is normalised to unit length, and so is the flattened result of shape (batch_size, feature_size
* num_clusters), float32. Batch norm uses the statistics of all descriptors of the batch (training mode); the
argument mask has no influence.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 2048
num_features = 100
num_clusters = 32
feature_size = 512
ghost_clusters = 0


class Model(nn.Module):
    """NetVLAD pooling with as many ghost clusters as asked for."""

    def __init__(self, cluster_size, feature_size, ghost_clusters):
        super().__init__()
        self.feature_size = feature_size
        self.cluster_size = cluster_size
        self.ghost_clusters = ghost_clusters
        scale = 1 / math.sqrt(feature_size)
        all_clusters = cluster_size + ghost_clusters
        self.clusters = nn.Parameter(scale * torch.randn(feature_size, all_clusters))
        self.batch_norm = nn.BatchNorm1d(all_clusters)
        self.clusters2 = nn.Parameter(scale * torch.randn(1, feature_size, cluster_size))
        self.out_dim = cluster_size * feature_size

    def forward(self, x, mask=None):
        descriptors = x.size(1)
        x = x.view(-1, self.feature_size)
        assignment = F.softmax(self.batch_norm(torch.matmul(x, self.clusters)), dim=1)
        assignment = assignment[:, : self.cluster_size].view(-1, descriptors, self.cluster_size)
        centres = torch.sum(assignment, dim=1, keepdim=True) * self.clusters2
        assignment = assignment.transpose(1, 2)
        x = x.view(-1, descriptors, self.feature_size)
        vlad = torch.matmul(assignment, x).transpose(1, 2) - centres
        vlad = F.normalize(vlad, dim=1)
        return F.normalize(vlad.reshape(-1, self.out_dim), dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(batch_size, num_features, feature_size)]


def get_init_inputs() -> list[int]:
    return [num_clusters, feature_size, ghost_clusters]
