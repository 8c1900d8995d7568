#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/prepare.h"
#include "data/prepare/sources.h"

namespace echelon::data {

/// prepare.json: sources, options and sizes of a folder's data files. It is written last, so if it exists
/// the files beside it are complete. For source files of this module only.
class PrepareManifest {
 public:
  /// Identity of the work: options that change the result, and path, size and time of every source.
  /// `chat`: ChatSource::identity(), or null.
  PrepareManifest(const PrepareOptions& options, const std::vector<SourceFile>& files,
                  const nlohmann::ordered_json& chat);
  /// Identity of the work on several sources.
  PrepareManifest(const PrepareOptions& options, nlohmann::ordered_json identity);

  [[nodiscard]] const nlohmann::ordered_json& identity() const { return identity_; }

  /// The report kept in `options.output`, when it was made from the same identity and its files still are the
  /// ones it tells of. Empty otherwise.
  [[nodiscard]] std::optional<PrepareReport> find_finished() const;

  /// The folder's manifest, if it is of this identity, finished or not; else null.
  [[nodiscard]] nlohmann::json announced() const;

  /// Throws Error(kData) when the folder holds data files of another identity, unless options.force.
  void check_replaceable() const;

  /// Writes a manifest without results, before the first file is replaced, so that an interrupted run is
  /// recognized and repeated, and never mistaken for a complete one. `more`: members beside the identity.
  void announce(nlohmann::ordered_json more = nlohmann::ordered_json::object()) const;

  /// Throws Error(kData) when it cannot be written.
  void publish(const PrepareReport& report) const;

 private:
  [[nodiscard]] bool made(const nlohmann::json& manifest) const;

  const PrepareOptions& options_;
  std::string folder_;
  nlohmann::ordered_json identity_;
};

}  // namespace echelon::data
