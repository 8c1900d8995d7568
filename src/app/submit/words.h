#pragma once
#include <string>
#include <string_view>

/// The texts that may enter a job script. All text from a user or a recipe goes through checked(), an
/// allow-list: a shell, an `#SBATCH` line or a list of Slurm must not interpret any part of it.
namespace echelon::submit {

enum class Word {
  kJobName,     ///< letters, digits, . _ -
  kName,        ///< account, QOS: also @
  kNames,       ///< partitions: names separated by commas
  kNodes,       ///< a list of nodes: "n[1-3,7],m2"
  kConstraint,  ///< features combined with & | * ( ) [ ] : ,
  kGres,        ///< "gpu:h100:8,lustre"
  kImage,       ///< container image: a file, or "docker://registry#name:tag"
  kPath,        ///< absolute path; no comma or colon (mounts), no percent sign (Slurm's file name patterns)
  kMounts,      ///< absolute paths "FROM:TO[:ro]", separated by commas
  kProgram,     ///< a path, or a name to be found in PATH
};

/// Returns `text` if it is a word of this kind, has at most 1,024 characters and does not start like an
/// option. Else throws Error(kUsage): "<what> is '...': a character that ..., expected ...". `what`: the
/// option or key, such as "--partition" or "run.dir".
[[nodiscard]] const std::string& checked(Word word, std::string_view what, const std::string& text);

/// A checked text in double quotes for bash. {task} in it becomes a variable with the number of the array's
/// task.
[[nodiscard]] std::string in_quotes(const std::string& checked_text);

/// Replaces every {task} in `text`, which stands for the number of the array's task.
[[nodiscard]] std::string with_task(std::string text, std::string_view replacement);

}  // namespace echelon::submit
