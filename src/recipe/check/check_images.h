#pragma once
#include <vector>

#include "recipe/check/check.h"

namespace echelon::recipe {

/// Adds what is wrong with data of images: images for a model of tokens or the other way round, values for
/// another number of channels, a crop larger than the image it is cut from.
void find_image_conflicts(const Recipe& recipe, std::vector<Conflict>& found);

}  // namespace echelon::recipe
