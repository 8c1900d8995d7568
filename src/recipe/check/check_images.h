#pragma once
#include <vector>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// Adds conflicts of image data: images for a token model or tokens for an image model, per-channel values
/// for a different number of channels, a crop larger than its image.
void find_image_conflicts(const Recipe& recipe, std::vector<Conflict>& found);

}  // namespace echelon::recipe
