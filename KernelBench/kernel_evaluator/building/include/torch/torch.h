// Stands in front of PyTorch's own header of this name while a kernel is built: see types.h beside it.
#pragma once

#include <torch/types.h>
