// Stands in front of PyTorch's own header of this name while a kernel is built: see torch/types.h.
#pragma once

#include <torch/types.h>
