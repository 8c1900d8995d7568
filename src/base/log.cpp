#include "base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/foreign_text.h"
#include "base/fs.h"

namespace echelon::log {
namespace {

// The one process-wide object: a log line must be possible from anywhere, also while a constructor fails.
std::shared_ptr<spdlog::logger>& current() {
  static auto logger = [] {
    auto made =
        std::make_shared<spdlog::logger>("echelon", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    return made;
  }();
  return logger;
}

}  // namespace

void init(std::string_view prefix, bool console, const std::filesystem::path& file) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_sink_mt>()};
  sinks.back()->set_pattern("%v");
  // What ends a run may be known to one rank alone: nobody should have to look for it in N files.
  sinks.back()->set_level(console ? spdlog::level::info : spdlog::level::err);
  if (!file.empty()) {
    try {
      sinks.push_back(std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()));
    } catch (const spdlog::spdlog_ex& e) {
      throw Error(Code::kUsage, "cannot open log file '" + file.string() + "': " + e.what());
    }
    sinks.back()->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L [" + std::string(prefix) + "] %v");
  }
  auto made = std::make_shared<spdlog::logger>("echelon", sinks.begin(), sinks.end());
  made->set_level(spdlog::level::debug);
  made->flush_on(spdlog::level::debug);
  current() = made;
}

void info(std::string_view text) {
  current()->info("{}", terminal_text(text));
}
void note(std::string_view text) {
  current()->debug("{}", terminal_text(text));
}
void warn(std::string_view text) {
  current()->warn("warning: {}", terminal_text(text));
}
void error(std::string_view text) {
  current()->error("{}", terminal_text(text));
}
void flush() {
  current()->flush();
}

}  // namespace echelon::log
