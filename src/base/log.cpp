#include "base/log.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>

#include "base/foreign_text.h"
#include "base/fs.h"
#include "base/status_line.h"

namespace echelon::log {
namespace {

/// Standard error, which may end in a status line.
class Console final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    status_line::print_above({line.data(), line.size()});
  }
  void flush_() override { std::fflush(stderr); }
};

// The one process-wide object: a log line must be possible from anywhere, also while a constructor fails.
std::shared_ptr<spdlog::logger>& current() {
  static auto logger = [] {
    auto made = std::make_shared<spdlog::logger>("echelon", std::make_shared<Console>());
    made->set_pattern("%v");
    return made;
  }();
  return logger;
}

}  // namespace

void init(std::string_view prefix, bool console, const std::filesystem::path& file) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<Console>()};
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
