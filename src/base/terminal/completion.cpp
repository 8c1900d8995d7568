#include "base/terminal/completion.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string_view>

#include "base/options/choice.h"
#include "base/terminal/command_line.h"

namespace echelon {
enum class Shell : std::uint8_t { kBash, kZsh, kFish };
}  // namespace echelon
template <>
inline constexpr std::array<std::string_view, 3> echelon::kWords<echelon::Shell>{"bash", "zsh", "fish"};

namespace echelon {
namespace {

// bash has split the word at '=' and ':' and replaces only what is behind them.
constexpr std::string_view kBash = R"(# Completion of PROGRAM in bash: source <(PROGRAM completion bash)
_FUNCTION() {
  local line=${COMP_LINE:0:COMP_POINT} words word before candidate
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[-1]}
  before=${word%"${word##*[=:]}"}
  COMPREPLY=()
  while IFS= read -r candidate; do
    candidate=${candidate%%$'\t'*}
    [[ $candidate == *[=./] ]] && compopt -o nospace
    COMPREPLY+=("${candidate#"$before"}")
  done < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _FUNCTION PROGRAM
)";

constexpr std::string_view kZsh = R"(#compdef PROGRAM
# Completion of PROGRAM in zsh: source <(PROGRAM completion zsh)
_FUNCTION() {
  local line text
  local -a whole shown begun begun_shown
  for line in "${(@f)$("$words[1]" complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}"; do
    text=${line%%$'\t'*}
    [[ -n $text ]] || continue
    if [[ $text == *[=./] ]]; then
      begun+=("$text") begun_shown+=("${line/$'\t'/  -- }")
    else
      whole+=("$text") shown+=("${line/$'\t'/  -- }")
    fi
  done
  if (( $#whole + $#begun == 0 )); then
    _files
    return
  fi
  (( $#whole )) && compadd -l -d shown -a whole
  (( $#begun )) && compadd -S '' -l -d begun_shown -a begun
}
if [[ $funcstack[1] == _FUNCTION ]]; then
  _FUNCTION
else
  compdef _FUNCTION PROGRAM
fi
)";

constexpr std::string_view kFish = R"(# Completion of PROGRAM in fish: PROGRAM completion fish | source
function _FUNCTION
    set -l words (commandline -opc)
    $words[1] complete $words[2..-1] (commandline -ct) 2>/dev/null
    or __fish_complete_path (commandline -ct)
end
complete -c PROGRAM -f -a '(_FUNCTION)'
)";

std::string script(Shell shell, const std::string& program) {
  std::string text(shell == Shell::kBash ? kBash : shell == Shell::kZsh ? kZsh : kFish);
  std::string function = program;
  std::ranges::replace(function, '-', '_');
  return CLI::detail::find_and_replace(CLI::detail::find_and_replace(text, "PROGRAM", program), "FUNCTION",
                                       function);
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// "{text,code}" of an option's type, which CLI11 writes for a fixed set of values.
std::vector<Candidate> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  std::vector<Candidate> choices;
  if (begin == type.npos || end == type.npos) return choices;
  for (const std::string& word : CLI::detail::split(type.substr(begin + 1, end - begin - 1), ','))
    choices.push_back({word, ""});
  return choices;
}

std::string name_of(const CLI::Option& option) {
  return option.get_positional() ? option.get_name(true) : option.get_name();
}

/// A place on the command line: the command that the words before it chose, and what is expected there.
struct Place {
  const CLI::App* command;
  const CLI::Option* value_of = nullptr;  ///< the option whose value this word is
  std::size_t positionals = 0;            ///< words before it that are arguments
  bool options_over = false;              ///< behind "--"
};

void pass(Place& place, const std::string& word) {
  if (place.value_of != nullptr) {
    place.value_of = nullptr;
  } else if (word == "--") {
    place.options_over = true;
  } else if (!place.options_over && word.size() > 1 && word[0] == '-') {
    const CLI::Option* option = place.command->get_option_no_throw(word);  // null for --name=value
    if (option != nullptr && takes_value(*option)) place.value_of = option;
  } else {
    const std::vector<const CLI::App*> commands = commands_of(*place.command);
    const auto named = std::ranges::find_if(
        commands, [&word](const CLI::App* command) { return command->get_name() == word; });
    if (named != commands.end())
      place = {*named};
    else
      ++place.positionals;
  }
}

std::vector<Candidate> values_of(const CLI::Option& option, const std::string& begun,
                                 const ValuesOf& values) {
  std::vector<Candidate> found = choices_of(option);
  return found.empty() ? values(name_of(option), begun) : found;
}

std::vector<Candidate> options_of(const CLI::App& command) {
  std::vector<Candidate> found;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames())
      found.push_back({"--" + name, first_line(option->get_description())});
  }
  return found;
}

/// Commands, else the values of the argument at this place. A list takes all words that are left.
std::vector<Candidate> words_at(const Place& place, const std::string& begun, const ValuesOf& values) {
  std::vector<Candidate> found;
  for (const CLI::App* command : commands_of(*place.command))
    found.push_back({command->get_name(), first_line(command->get_description())});
  if (!found.empty()) return found;
  std::size_t before = 0;
  for (const CLI::Option* option : place.command->get_options()) {
    if (!option->get_positional()) continue;
    before += static_cast<std::size_t>(option->get_items_expected_max());
    if (place.positionals < before) return values_of(*option, begun, values);
  }
  return {};
}

/// With a value in the same word: --to=safetensors.
std::vector<Candidate> values_behind_equals(const Place& place, const std::string& begun, std::size_t equals,
                                            const ValuesOf& values) {
  const CLI::Option* option = place.command->get_option_no_throw(begun.substr(0, equals));
  if (option == nullptr) return {};
  std::vector<Candidate> found = values_of(*option, begun.substr(equals + 1), values);
  for (Candidate& candidate : found) candidate.text.insert(0, begun, 0, equals + 1);
  return found;
}

}  // namespace

std::vector<Candidate> complete(const CLI::App& app, const std::vector<std::string>& words,
                                const ValuesOf& values) {
  Place place{&app};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) pass(place, words[i]);
  const std::string begun = words.empty() ? "" : words.back();
  const std::size_t equals = begun.find('=');
  std::vector<Candidate> found;
  if (place.value_of != nullptr) {
    found = values_of(*place.value_of, begun, values);
  } else if (place.options_over || !begun.starts_with('-')) {
    found = words_at(place, begun, values);
  } else if (equals == begun.npos) {
    found = options_of(*place.command);
  } else {
    found = values_behind_equals(place, begun, equals, values);
  }
  std::erase_if(found, [&begun](const Candidate& candidate) { return !candidate.text.starts_with(begun); });
  return found;
}

int print_completion(const CLI::App& app, const std::vector<std::string>& words, const ValuesOf& values) {
  const std::vector<Candidate> found = complete(app, {words.begin() + 1, words.end()}, values);
  for (const Candidate& candidate : found)
    std::cout << candidate.text << (candidate.meaning.empty() ? "" : "\t") << candidate.meaning << '\n';
  return found.empty() ? 1 : 0;
}

std::vector<Candidate> paths_that_begin(const std::string& begun,
                                        const std::function<bool(const std::string&)>& wanted) {
  const std::string before = begun.substr(0, begun.rfind('/') + 1);
  std::vector<Candidate> found;
  std::error_code ignored;  // what cannot be listed is not offered
  const std::filesystem::directory_iterator folder(before.empty() ? "." : before, ignored);
  for (const auto& entry : folder) {
    const std::string name = entry.path().filename().string();
    // The shells' scripts take words apart at spaces.
    if (name.starts_with('.') || name.find_first_of(" \t\n\\'\"") != name.npos) continue;
    const bool is_folder = entry.is_directory(ignored);
    if (wanted(entry.path().string()))
      found.push_back({before + name, ""});
    else if (is_folder)
      found.push_back({before + name + '/', ""});
  }
  std::ranges::sort(found, {}, &Candidate::text);
  return found;
}

void add_completion(CLI::App& app) {
  auto shell = std::make_shared<Shell>(Shell::kBash);
  CLI::App* command =
      app.add_subcommand("completion", "Print the script that completes this program's words in a shell");
  add_choice(*command, "shell", *shell, "Whose script")->required();
  command->callback([shell, &app] { std::cout << script(*shell, app.get_name()); });
}

}  // namespace echelon
