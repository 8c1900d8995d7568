#include "base/log.h"

#include <fcntl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <mutex>
#include <span>

#include "base/files/own_file.h"
#include "base/foreign_text.h"
#include "base/terminal/status_line.h"

namespace echelon::log {
namespace {

/// Standard error, whose last line may be a status line.
class Console final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    status_line::print_above({line.data(), line.size()});
  }
  void flush_() override { std::fflush(stderr); }
};

/// Appends to a file opened with open_own(); spdlog's own sinks would follow links.
class OwnFileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit OwnFileSink(const fs::Path& path)
      : path_(path), file_(fs::open_own(path, O_WRONLY | O_CREAT | O_APPEND, Code::kUsage)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    // O_APPEND writes at the end, whatever offset is given.
    fs::write_at(file_, 0, std::as_bytes(std::span(line.data(), line.size())), Code::kUsage, path_);
  }
  void flush_() override {}

  fs::Path path_;
  fs::Fd file_;
};

// Process-wide: a log line must be possible from anywhere, also while a constructor fails.
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
  // Errors go to standard error from every rank: the cause of a failure may be known to one rank only, and
  // nobody should have to search N files.
  sinks.back()->set_level(console ? spdlog::level::info : spdlog::level::err);
  if (!file.empty()) {
    sinks.push_back(in_context("log file", [&] { return std::make_shared<OwnFileSink>(file); }));
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
