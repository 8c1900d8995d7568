#pragma once
#include <vector>

#include "app/doctor/checks/recipe_size.h"
#include "app/doctor/finding.h"
#include "app/doctor/machine/folder_probe.h"
#include "app/doctor/machine/gpus.h"
#include "app/doctor/machine/machine.h"
#include "recipe/recipe.h"

/// What a recipe needs, held against this machine. One function for each thing; none of them trains.
namespace echelon::app::doctor {

/// Where a run is to be started.
struct JobShape {
  int nodes = 1;
  int ranks_per_node = 1;
  [[nodiscard]] int ranks() const { return nodes * ranks_per_node; }
};

/// Training and validation data can be opened as training opens them: present, whole in its headers, made for
/// this model. Reads the first sample.
[[nodiscard]] Finding check_data(const Recipe& recipe);
[[nodiscard]] Finding check_validation_data(const Recipe& recipe);
/// The tokenizer opens and its ids fit model.vocab_size.
[[nodiscard]] Finding check_tokenizer(const Recipe& recipe);
/// There is room for the checkpoints that will lie in the run folder at the same time.
[[nodiscard]] Finding check_room(const Recipe& recipe, const RecipeSize& size, const FolderFacts& folder);
/// What the ranks of a node keep fits into its memory. Activations come on top: they are not predicted.
[[nodiscard]] Finding check_memory(const Recipe& recipe, const RecipeSize& size, const JobShape& shape,
                                   const Machine& machine, const Gpus& gpus);
/// Every rank can have the GPU that train.device asks for.
[[nodiscard]] Finding check_devices(const Recipe& recipe, const JobShape& shape, const Gpus& gpus);

}  // namespace echelon::app::doctor
