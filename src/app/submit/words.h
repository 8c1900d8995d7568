#pragma once
#include <string>
#include <string_view>

/// The texts that may enter a job script. All text from a user or a recipe goes through checked(), an
/// allow-list: a shell, an `#SBATCH` line or a list of Slurm must not interpret any part of it.
namespace echelon::submit {

/// What a kind of words may hold.
struct Word {
  std::string_view beside;    ///< allowed in addition to letters and digits
  std::string_view first;     ///< also allowed as first character; "/" alone: nothing but '/'
  std::string_view expected;  ///< description for messages
};

namespace words {
inline constexpr Word kJobName{"._-", "_", "letters, digits, '.', '_', '-'"};
/// Account, QOS.
inline constexpr Word kName{"._@-", "_", "letters, digits, '.', '_', '@', '-'"};
/// Partitions.
inline constexpr Word kNames{"._-,", "_",
                             "names of letters, digits, '.', '_', '-', with commas between them"};
inline constexpr Word kNodes{"._-,[]", "", "nodes such as n1,n[3-5]"};
inline constexpr Word kConstraint{"._-,&|*()[]:", "_([", "features such as a100&ssd or [rack1|rack2]"};
inline constexpr Word kGres{"._-,:", "_", "resources such as gpu:h100:8"};
inline constexpr Word kImage{
    "._-+@:/#=", "/._",
    "a file or an image such as docker://ubuntu:24.04, of letters, digits and . _ - + @ : / # ="};
/// No comma or colon (mounts), no percent sign (Slurm's file name patterns).
inline constexpr Word kPath{"._-+@=/", "/", "an absolute path of letters, digits and . _ - + @ = /"};
inline constexpr Word kMounts{"._-+@=/:,", "/",
                              "absolute paths FROM:TO or FROM:TO:ro, with commas between them"};
/// A name is found in PATH.
inline constexpr Word kProgram{"._-+@=/", "/._",
                               "a program's path or name, of letters, digits and . _ - + @ = /"};
}  // namespace words

/// Returns `text` if it is a word of this kind, has at most 1,024 characters and does not start like an
/// option. Else throws Error(kUsage): "<what> is '...': a character that ..., expected ...". `what`: the
/// option or key, such as "--partition" or "run.dir".
[[nodiscard]] const std::string& checked(const Word& word, std::string_view what, const std::string& text);

/// A checked text in double quotes for bash. {task} in it becomes a variable with the number of the array's
/// task.
[[nodiscard]] std::string in_quotes(const std::string& checked_text);

/// Replaces every {task} in `text`, which stands for the number of the array's task.
[[nodiscard]] std::string with_task(std::string text, std::string_view replacement);

}  // namespace echelon::submit
