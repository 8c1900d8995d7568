#include "base/log.h"

#include <fcntl.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstdio>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "base/files/own_file.h"
#include "base/foreign_text.h"
#include "base/mutex.h"
#include "base/str.h"
#include "base/terminal/status_line.h"

namespace echelon::log {
namespace {

/// Standard error, whose last line may be a status line.
class StandardError final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
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
  OwnFileSink(fs::Path path, bool held) : path_(std::move(path)), held_(held) {
    // A fault of an existing file is reported at once.
    if (!held || std::filesystem::exists(std::filesystem::symlink_status(path_))) open();
  }
  void keep() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(held_, false)) return;
    if (!file_.valid()) open();
    write(std::exchange(waiting_, ""));
  }

 private:
  void open() { file_ = fs::open_own(path_, O_WRONLY | O_CREAT | O_APPEND, Code::kEnvironment); }
  void write(std::string_view text) {
    if (!file_.valid()) return;  // keep() has said so
    // O_APPEND writes at the end, whatever offset is given.
    fs::write_at(file_, 0, std::as_bytes(std::span(text)), Code::kEnvironment, path_);
  }
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (held_) {
      waiting_ += text;
      return;
    }
    try {
      write(text);
      fails_ = false;
    } catch (const Error& e) {
      // Not logged, which would come here again.
      if (!std::exchange(fails_, true))
        status_line::print_above(str("warning: a log file misses lines: ", e.what(), '\n'));
    }
  }
  void flush_() override {}

  fs::Path path_;
  fs::Fd file_;
  bool held_;
  bool fails_ = false;  ///< the latest line is not in the file
  std::string waiting_;
};

struct Target {
  std::shared_ptr<spdlog::logger> logger;
  std::shared_ptr<OwnFileSink> file;  ///< of the logger; null: none
};

/// Others log while init() replaces it.
class SharedTarget {
 public:
  SharedTarget() {
    target_.logger = std::make_shared<spdlog::logger>("echelon", std::make_shared<StandardError>());
    target_.logger->set_pattern("%v");
    target_.logger->set_level(spdlog::level::debug);
    target_.logger->sinks().front()->set_level(spdlog::level::info);
  }
  [[nodiscard]] Target get() {
    const Lock lock(mutex_);
    return target_;
  }
  void set(Target target) {
    const Lock lock(mutex_);
    std::swap(target_, target);  // the old one is destroyed without the lock
  }

 private:
  Mutex mutex_;
  Target target_ ECHELON_GUARDED_BY(mutex_);
};

// Process-wide: a log line must be possible from anywhere, also while a constructor fails.
SharedTarget& shared_target() {
  static SharedTarget target;
  return target;
}

std::shared_ptr<spdlog::logger> current() {
  return shared_target().get().logger;
}

}  // namespace

void show(Console console) {
  constexpr std::array kLevels{spdlog::level::warn, spdlog::level::info, spdlog::level::debug};
  current()->sinks().front()->set_level(kLevels[static_cast<std::size_t>(console)]);
}

void init(std::string_view prefix, bool console, const std::filesystem::path& file, bool held) {
  std::vector<spdlog::sink_ptr> sinks{std::make_shared<StandardError>()};
  sinks.back()->set_pattern("%v");
  // Errors go to standard error from every rank: the cause of a failure may be known to one rank only, and
  // nobody should have to search N files.
  sinks.back()->set_level(console ? current()->sinks().front()->level() : spdlog::level::err);
  Target made;
  if (!file.empty()) {
    made.file = in_context("log file", [&] { return std::make_shared<OwnFileSink>(file, held); });
    sinks.push_back(made.file);
    sinks.back()->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %L [" + std::string(prefix) + "] %v");
  }
  made.logger = std::make_shared<spdlog::logger>("echelon", sinks.begin(), sinks.end());
  made.logger->set_level(spdlog::level::debug);
  made.logger->flush_on(spdlog::level::debug);
  shared_target().set(std::move(made));
}

void keep() {
  try {
    if (const auto file = shared_target().get().file) file->keep();
  } catch (const Error& e) {
    warn(str("this start has no log file: ", e.what()));
  }
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
