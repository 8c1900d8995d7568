#include "app/launcher/one_rank.h"

#include <filesystem>

#include "base/str.h"

namespace echelon::app {

std::vector<std::string> command_of_one_rank(const CLI::App& command) {
  std::vector<std::string> line{std::filesystem::read_symlink("/proc/self/exe").string(), command.get_name()};
  std::vector<std::string> places{"--"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name("--ranks")) continue;
    for (const std::string& value : option->results()) {
      if (option->get_positional()) {
        places.push_back(value);
      } else if (value.empty()) {
        line.insert(line.end(), {option->get_name(), value});
      } else {
        // Joined by '=': mpirun takes a ':' of its own as a separator.
        line.push_back(str(option->get_name(), '=', value));
      }
    }
  }
  line.insert(line.end(), places.begin(), places.end());
  return line;
}

}  // namespace echelon::app
