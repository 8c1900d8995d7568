#pragma once
#include "checkpoint/reader.h"
#include "model/model.h"

namespace echelon {

/// Gives every parameter of `model` whole, unsharded storage in host memory and fills it with the weights of
/// the checkpoint, as fp32 whatever type they were kept in: for tools of a single process. Throws
/// Error(kCheckpoint) for a tensor that is missing, damaged, or of another shape.
void load_whole(const checkpoint::Reader& reader, Model& model);

}  // namespace echelon
