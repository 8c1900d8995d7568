#include "data/tasks/task.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/checksum/crc32c.h"
#include "base/error.h"
#include "base/foreign_json.h"
#include "base/foreign_text.h"
#include "base/str.h"
#include "data/prepare/source_stream.h"
#include "text/json_field.h"

namespace echelon::data {
namespace {

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;
constexpr std::size_t kMostTexts = 1024;  // choices of an item, or answers

std::string read_text(const std::filesystem::path& path) {
  const Sources found = list_sources({.sources = {path}, .include = {"*"}});
  if (found.files.size() != 1) throw Error(Code::kData, "'", path.string(), "' is a folder; expected a file");
  return unix_text(read_source(found.files.front(), kLargestFile));
}

void read_choices(const JsonField& item, const JsonField& choices, TaskItem& read) {
  read.context += item.at("context").text();
  read.choices = mapped(choices.items(kMostTexts), &JsonField::text);
  if (read.choices.size() < 2) choices.refuse("at least two choices");
  for (const JsonField& choice : choices.items(kMostTexts)) {
    if (choice.text().empty()) choice.refuse("a text");
  }
  read.answer =
      static_cast<std::size_t>(item.at("answer").integer(static_cast<std::int32_t>(read.choices.size()) - 1));
}

void read_answers(const JsonField& item, const JsonField& answers, TaskItem& read) {
  read.context += item.at("prompt").text();
  read.answers = mapped(answers.items(kMostTexts), &JsonField::text);
  if (read.answers.empty()) answers.refuse("at least one answer");
}

TaskKind read_item(const std::string& line, TaskItem& read) {
  auto [object, problem] = read_foreign_json(line, {.unique_keys = false});
  if (!problem.empty()) throw Error(Code::kData, read.place, ": ", problem);
  const JsonField item(object, read.place + ": item");
  if (const auto choices = item.find("choices")) {
    read_choices(item, *choices, read);
    return TaskKind::kChoices;
  }
  if (const auto answers = item.find("answers")) {
    read_answers(item, *answers, read);
    return TaskKind::kExact;
  }
  throw Error(Code::kData, read.place,
              ": item has neither 'choices' nor 'answers'; expected {\"context\", "
              "\"choices\", \"answer\"} or {\"prompt\", \"answers\"}");
}

Task read_task(const std::string& name, const std::filesystem::path& path, const std::string& prefix,
               std::int64_t limit) {
  Task task{.name = name};
  std::size_t number = 0;
  for (const std::string& line : split(read_text(path), '\n')) {
    if (limit > 0 && static_cast<std::int64_t>(task.items.size()) == limit) break;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    TaskItem item{.context = prefix, .place = str(path.string(), ":", number)};
    const TaskKind kind = read_item(line, item);
    if (!task.items.empty() && kind != task.kind) {
      throw Error(Code::kData, item.place, ": item has '", kind == TaskKind::kChoices ? "choices" : "answers",
                  "', those before it do not; expected one kind in a file");
    }
    task.kind = kind;
    task.items.push_back(std::move(item));
  }
  if (task.items.empty()) throw Error(Code::kData, "'", path.string(), "' has no item");
  return task;
}

/// The values of task `name`.
std::vector<std::string> of_task(const PatternMap<std::string>& map, const std::string& name) {
  std::vector<std::string> values;
  for (const auto& [task, value] : map) {
    if (task == name) values.push_back(value);
  }
  return values;
}

std::string only(const std::vector<std::string>& values) {
  return values.empty() ? std::string() : values.front();
}

}  // namespace

std::vector<Task> read_tasks(const EvaluationOptions& options) {
  std::vector<Task> tasks;
  for (const auto& [name, path] : options.tasks) {
    const std::string prefix = only(of_task(options.prefix, name));
    Task task = read_task(name, path, prefix.empty() ? prefix : read_text(prefix), options.limit);
    task.answer.after = only(of_task(options.after, name));
    task.answer.max_new_tokens = options.max_new_tokens;
    if (auto until = of_task(options.until, name); !until.empty()) task.answer.until = std::move(until);
    tasks.push_back(std::move(task));
  }
  const bool generates =
      std::ranges::any_of(tasks, [](const Task& task) { return task.kind == TaskKind::kExact; });
  if (!generates && !(options.until.empty() && options.after.empty())) {
    throw Error(Code::kData,
                "--until and --after (evaluation.until and .after) are about generated answers, but ",
                tasks.size() == 1 ? "the task has" : "all tasks have",
                " choices alone: remove them, or name a file of {\"prompt\", \"answers\"}");
  }
  return tasks;
}

std::uint32_t task_fingerprint(const Task& task) {
  std::uint32_t crc = 0;
  const auto add = [&crc](const std::string& text) {
    crc = crc32c(text, crc32c(str(text.size(), ':'), crc));
  };
  for (const TaskItem& item : task.items) {
    add(item.context);
    for (const std::string& choice : item.choices) add(choice);
    add(str(item.answer));
    for (const std::string& answer : item.answers) add(answer);
  }
  for (const std::string& end : task.answer.until) add(end);
  add(task.answer.after);
  add(str(task.answer.max_new_tokens));
  return crc;
}

}  // namespace echelon::data
