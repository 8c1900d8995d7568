#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

/// Completion of command lines in shells, made from a program's CLI11 description. The shells' scripts are
/// short: they run `PROGRAM complete WORDS...` and offer what it prints, so nothing has to be generated again
/// when an option changes.
namespace echelon {

/// A word that the shell may offer.
struct Candidate {
  std::string text;     ///< the whole word; one that ends with '=', '.' or '/' is not finished
  std::string meaning;  ///< shown by zsh and fish; may be empty
};

/// Returns what may stand at a positional argument or an option's value. `name`: "recipe", "--task". `begun`:
/// the beginning of the word.
using ValuesOf = std::function<std::vector<Candidate>(const std::string& name, const std::string& begun)>;

/// Returns the words that may stand in place of the last of `words`, which is the beginning of one. Empty:
/// any file. `words`: the command line behind the program's name.
[[nodiscard]] std::vector<Candidate> complete(const CLI::App& app, const std::vector<std::string>& words,
                                              const ValuesOf& values);

/// Prints complete() of the words behind `complete`, one a line, a tab before its meaning. Returns the exit
/// code: 1 if there is none.
[[nodiscard]] int print_completion(const CLI::App& app, const std::vector<std::string>& words,
                                   const ValuesOf& values);

/// The entries of the folder that `begun` names a part of and for which `wanted` is true, and all folders, as
/// words that begin with `begun`.
[[nodiscard]] std::vector<Candidate> paths_that_begin(const std::string& begun,
                                                      const std::function<bool(const std::string&)>& wanted);

/// Adds the command `completion SHELL`, which prints the script for bash, zsh or fish.
void add_completion(CLI::App& app);

}  // namespace echelon
