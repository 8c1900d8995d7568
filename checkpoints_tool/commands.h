#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/folder/retention.h"
#include "checkpoints_tool/convert/conversion.h"
#include "families/output_type.h"

namespace echelon::tool {

using Path = std::filesystem::path;

/// Each command prints its result to standard output and throws Error for what it cannot do.

struct LsOptions {
  Path folder;  ///< run folder, checkpoints folder, or one step folder
  bool json = false;
};
void list_checkpoints(const LsOptions& options);

struct InspectOptions {
  Path checkpoint;  ///< step folder, or run folder for its newest
  bool json = false;
};
void inspect(const InspectOptions& options);

struct VerifyOptions {
  Path checkpoint;
  bool quick = false;
  bool deep = false;  ///< the default, made explicit
  bool json = false;
};
/// Throws Error(kCheckpoint) after printing the report when something is wrong.
void verify_checkpoint(const VerifyOptions& options);

struct ConsolidateOptions {
  Path checkpoint;
  families::OutputFormat to = families::OutputFormat::kHdf5;
  Path output;  ///< file for hdf5, folder for safetensors; must not exist
  families::OutputType dtype = families::OutputType::kSame;  ///< of the model's floating-point tensors
  bool optimizer = false;                                    ///< also everything outside model/
  std::optional<std::string> max_shard_size;                 ///< of each safetensors file; none: 5GB
  ConversionLimits limits;
};
void consolidate(const ConsolidateOptions& options);

struct ExportOptions {
  Path checkpoint;
  Path output;  ///< folder to make; must not exist
  families::OutputType dtype = families::OutputType::kSame;
  bool ema = false;    ///< the averaged weights instead of the last ones
  bool merge = false;  ///< adapters are added to the weights
  /// The base's name in an adapter's folder (empty: not stated); with `merge` the folder where it lies
  /// (empty: where the checkpoint says).
  std::string base;
  std::optional<std::string> max_shard_size;  ///< of each safetensors file; none: 5GB
  ConversionLimits limits;
};
void export_weights(const ExportOptions& options);

struct ViewOptions {
  Path checkpoint;
  Path output;  ///< file to make; must not exist
};
void make_view(const ViewOptions& options);

struct SalvageOptions {
  Path folder;  ///< one step folder
  Path output;  ///< HDF5 file to write, with a report beside it; empty: report only
  bool json = false;
  ConversionLimits limits;
};
/// Throws Error(kCheckpoint) after its work when something is lost.
void salvage_tensors(const SalvageOptions& options);

struct DiffOptions {
  Path a;
  Path b;
  bool data = false;  ///< also by how much the elements differ
  bool json = false;
};
/// Returns whether the tensors of both are the same.
[[nodiscard]] bool diff_checkpoints(const DiffOptions& options);

struct ImportOptions {
  Path input;   ///< Hugging Face folder, or one .safetensors file beside its config.json; or peft's folder
  Path base;    ///< of a peft adapter: checkpoint or Hugging Face folder; empty: the input is a whole model
  Path output;  ///< folder to make; must not exist
  families::OutputType dtype = families::OutputType::kFp32;  ///< of the weights
  int world = 1;                                             ///< shards to write
};
void import_weights(const ImportOptions& options);
/// Imports a peft adapter: options.base is given.
void import_adapter(const ImportOptions& options);

struct ReshardOptions {
  Path checkpoint;
  int world = 1;  ///< shards to write
  Path output;    ///< folder to make; must not exist
};
void reshard(const ReshardOptions& options);

struct GcOptions {
  Path run;          ///< run folder or checkpoints folder
  bool yes = false;  ///< carry it out
  bool json = false;
};
void collect_garbage(const GcOptions& options);

struct PruneOptions : GcOptions {
  checkpoint::RetentionPolicy keep;
  bool quick = false;  ///< a commit whose files have the right sizes counts without having been read
};
void prune_run(const PruneOptions& options);

}  // namespace echelon::tool
