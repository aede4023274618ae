// Stands in front of PyTorch's own header of this name while a kernel is built: see types.h beside it.
// A CUDA file that binds nothing to Python is spared pybind11.
#pragma once

#include <torch/types.h>

#if !defined(__CUDACC__) || defined(KERNELBENCH_BINDS_IN_CUDA)
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#endif
