#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "app/launcher/output_relay.h"
#include "bootstrap/job.h"

// What the launcher's test starts: launch_rank FOLDER MODE ..., one rank that writes what happened to it to
// FOLDER/rank-R. Modes:
//
//   exit CODE RANK     that rank exits with CODE, the others wait to be stopped
//   all CODE           every rank joins the job, leaves it and exits with CODE
//   raise SIGNAL RANK  that rank ends itself by SIGNAL
//   wait CODE          until SIGTERM, SIGINT or SIGUSR2, then half a second, then exits with CODE
//   progress CODE      the same, after half a line that is written anew
//   say                prints one line to each stream, as a program that knows nothing of the launcher's
//   flood SIZE         prints so many bytes to standard output
namespace {

volatile sig_atomic_t count = 0;
volatile sig_atomic_t last = 0;
void on_signal(int number) {
  count = count + 1;
  last = number;
}

int wait_for_signal(int code, const std::string& file) {
  std::ofstream(file) << "ready " << getpid() << std::endl;
  for (int n = 0; n < 1500 && count == 0; ++n) usleep(20000);
  usleep(500000);
  std::ofstream(file) << count << " of signal " << last << std::endl;
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  for (const int number : {SIGTERM, SIGINT, SIGUSR2}) std::signal(number, on_signal);
  const std::string mode = argv[2];
  if (mode != "say") echelon::app::use_offered_output();
  const int number = argc > 3 ? std::atoi(argv[3]) : 0;
  const int who = argc > 4 ? std::atoi(argv[4]) : -1;
  const auto job = echelon::bootstrap(echelon::Launch::kPmix, 20.0);
  const int rank = job->info().rank;
  const std::string file = std::string(argv[1]) + "/rank-" + std::to_string(rank);
  if (mode == "say") {
    std::printf("out %d of %d\n", rank, job->info().size);
    std::fprintf(stderr, "err %d of %d\n", rank, job->info().size);
  }
  if (mode == "progress") std::fprintf(stderr, "step 1\rstep 2");
  if (mode == "flood") std::printf("%s", std::string(static_cast<std::size_t>(number), 'x').c_str());
  if (mode == "all" || mode == "say" || mode == "flood") {
    job->finish();
    return mode == "all" ? number : 0;
  }
  if (mode == "wait" || mode == "progress") return wait_for_signal(number, file);
  usleep(200000);  // the launcher has seen all ranks by then, as in any run that computes
  if (rank == who && mode == "raise") {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
  if (rank == who) return number;
  for (int n = 0; n < 1500; ++n) usleep(20000);
  return 98;
}
