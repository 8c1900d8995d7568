#include "app/launcher/step.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/process/process.h"
#include "base/str.h"
#include "bootstrap/job.h"

namespace echelon::app {
namespace {

/// A launcher ends all ranks once one has exited. The others wait this long, so that the first can report the
/// error.
constexpr std::chrono::seconds kTimeToTell{1};

}  // namespace

void once_per_step(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    if (first_of_step()) throw;
    std::this_thread::sleep_for(kTimeToTell);
    throw Error::already_reported(error.code());
  }
}

int local_ranks(int option) {
  if (!inside_launched_step()) return std::max(1, option);
  if (option != 0) {
    throw Error(Code::kUsage,
                "--ranks starts local ranks and cannot be used inside an srun or mpirun step: leave it out, "
                "the step's tasks are the ranks");
  }
  return 0;
}

std::vector<std::string> command_of_one_rank(const CLI::App& command) {
  std::vector<std::string> line;
  for (const CLI::App* part = &command; part->get_parent() != nullptr; part = part->get_parent())
    line.insert(line.begin(), part->get_name());
  line.insert(line.begin(), own_program().string());
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
