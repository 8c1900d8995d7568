#pragma once
#include "app/doctor/checks/recipe_size.h"
#include "app/doctor/finding.h"
#include "app/doctor/machine/folder_probe.h"
#include "app/doctor/machine/gpus.h"
#include "app/doctor/machine/machine.h"
#include "recipe/recipe.h"

/// Checks what a recipe needs against what this machine has. One function per check; none of them trains.
namespace echelon::app::doctor {

/// Opens the training or validation data as training does: it exists, its headers are valid, it fits the
/// model. Reads the first sample.
[[nodiscard]] Finding check_data(const Recipe& recipe);
[[nodiscard]] Finding check_validation_data(const Recipe& recipe);
/// The tokenizer can be opened; a warning if it has ids from model.vocab_size on.
[[nodiscard]] Finding check_tokenizer(const Recipe& recipe);
/// The file system has room for the largest number of checkpoints that the run folder holds at one time,
/// beside those that are there.
[[nodiscard]] Finding check_room(const Recipe& recipe, const RecipeSize& size, const FolderFacts& folder);
/// The persistent state of a node's ranks fits into its memory. Activations need more memory; they are not
/// predicted.
[[nodiscard]] Finding check_memory(const Recipe& recipe, const RecipeSize& size, int ranks_per_node,
                                   const Machine& machine, const Gpus& gpus);
/// Bytes that the ranks of a node keep in its memory, if they are not on GPUs.
[[nodiscard]] std::uint64_t host_bytes(const RecipeSize& size, int ranks_per_node);
/// Compares what `ranks` ranks keep with the memory that `where` has.
[[nodiscard]] Finding judge_memory(int ranks, std::uint64_t needed, const std::string& where,
                                   std::uint64_t there);
/// size_of() returned nothing.
[[nodiscard]] Finding uncountable();
/// Every rank can get the GPU that train.device requires.
[[nodiscard]] Finding check_devices(const Recipe& recipe, int ranks_per_node, const Gpus& gpus);

}  // namespace echelon::app::doctor
