#pragma once
#include <string>
#include <vector>

/// Recipes that programs write for people: only what matters, with comments.
namespace echelon::recipe {

/// A key of the recipe, its value as YAML, and what the reader should know of it; may be empty.
struct DraftLine {
  std::string key;
  std::string value;
  std::string comment;
};

/// Changes the values of `lines` to those of `overrides` ("train.micro_batch_size=4"), and adds what they
/// lack beside the keys of the same section.
void set_values(const std::vector<std::string>& overrides, std::vector<DraftLine>& lines);

/// The recipe as YAML below `heading`, lines of a comment.
[[nodiscard]] std::string yaml_of(const std::vector<DraftLine>& lines, const std::string& heading);

}  // namespace echelon::recipe
