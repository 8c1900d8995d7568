#include "base/trace_events.h"

#include <nlohmann/json.hpp>

#include "base/number.h"
#include "base/str.h"

namespace echelon {
namespace {

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void TraceEvents::append(const std::string& event) {
  if (!events_.empty()) events_ += ",\n";
  events_ += event;
}

void TraceEvents::name_process(int process, std::string_view name) {
  append(str(R"({"ph":"M","name":"process_name","pid":)", process, R"(,"tid":0,"args":{"name":)",
             quoted(name), "}}"));
  append(str(R"({"ph":"M","name":"process_sort_index","pid":)", process, R"(,"tid":0,"args":{"sort_index":)",
             process, "}}"));
}

void TraceEvents::name_lane(int process, int lane, std::string_view name) {
  append(str(R"({"ph":"M","name":"thread_name","pid":)", process, R"(,"tid":)", lane, R"(,"args":{"name":)",
             quoted(name), "}}"));
}

void TraceEvents::add(int process, int lane, std::string_view category, std::string_view name,
                      double begin_us, double duration_us, const std::string& arguments) {
  append(str(R"({"ph":"X","cat":)", quoted(category), R"(,"name":)", quoted(name), R"(,"pid":)", process,
             R"(,"tid":)", lane, R"(,"ts":)", fixed(begin_us, 3), R"(,"dur":)", fixed(duration_us, 3),
             arguments.empty() ? "" : ",\"args\":" + arguments, "}"));
}

}  // namespace echelon
