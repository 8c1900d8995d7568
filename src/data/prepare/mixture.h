#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"

namespace echelon::data {

/// One of several sources that are prepared by one command, for `data.mixture`.
struct MixturePart {
  std::string name;
  double weight = 0;
  PrepareOptions options;  ///< of its own prepare(): one source, a folder called `name` in the mixture's
};

/// The parts of `options`, whose sources are written NAME=PATH; `weights` holds NAME=NUMBER of each. Throws
/// Error(kUsage).
[[nodiscard]] std::vector<MixturePart> mixture_parts(const PrepareOptions& options,
                                                     const std::vector<std::string>& weights);

/// Checks the options and sources of all parts, so that no fault is found after hours of work. Where a
/// tokenizer is to be trained, trains one for all, on a share of each source as large as its weight, and
/// names it in the parts' options. It is kept as tokenizer.model of the mixture's folder, with a prepare.json
/// that says what it was made from, and used again by the same command. Returns the lock of that folder,
/// which is held until all is published. Throws as prepare() does.
[[nodiscard]] std::shared_ptr<const void> begin_mixture(const PrepareOptions& options,
                                                        std::vector<MixturePart>& parts,
                                                        const ProgressCallback& progress);

/// A recipe to include: the section data. `reports`: of prepare() of each part.
[[nodiscard]] std::string mixture_recipe(const std::vector<MixturePart>& parts,
                                         const std::vector<PrepareReport>& reports);

/// Writes it as mixture.yaml into the mixture's folder, and returns the file. Throws Error(kData), also when
/// the file has another text, unless options.force.
std::string publish_mixture(const PrepareOptions& options, const std::string& recipe);

}  // namespace echelon::data
