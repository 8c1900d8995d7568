#include <algorithm>
#include <array>

#include "base/str.h"
#include "report/charts/rows.h"
#include "report/page/common.h"
#include "report/page/sections.h"

namespace echelon::report {
namespace {

struct Kind {
  const char* name;
  int style;  ///< training and validation are plain, what costs time is hatched
  const char* meaning;
};
/// The kinds of time that goodput.json is known to have, in the order in which they are shown.
constexpr std::array kKinds{
    Kind{"train", 0, "steps that later steps build on"},
    Kind{"validate", 2, "validation and generated texts"},
    Kind{"start", 3, "before the first step and after the last"},
    Kind{"stall", 4, "training waits for a save"},
    Kind{"lost", 1, "steps that were trained but not saved"},
    Kind{"redo", 8, "training lost steps again"},
    Kind{"idle", 5, "waiting for a hung peer, and for ranks to exit"},
    Kind{"detect", 6, "from a failure until it was noticed"},
    Kind{"leave", 7, "until the ranks had left"},
    Kind{"launch", 9, "until the new ranks were there"},
    Kind{"load", 10, "reading the checkpoint again"},
    Kind{kUnrecorded, 11, "held by a job, but in no start that goodput.json accounts for"}};

/// One that is not known comes last.
std::size_t rank_of(const std::string& name) {
  const auto found = std::ranges::find(kKinds, name, &Kind::name);
  return static_cast<std::size_t>(found - kKinds.begin());
}

std::string meaning_of(const std::string& name) {
  const std::size_t rank = rank_of(name);
  return rank < kKinds.size() ? kKinds[rank].meaning : "";
}

std::vector<std::string> names_of_parts(const std::vector<RunView>& runs) {
  std::vector<std::string> names;
  for (const RunView& view : runs) {
    for (const Part& part : view.run.account.parts) {
      if (std::ranges::find(names, part.name) == names.end()) names.push_back(part.name);
    }
  }
  std::ranges::stable_sort(names, [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
  return names;
}

const Part* part_of(const Account& account, const std::string& name) {
  const auto found = std::ranges::find(account.parts, name, &Part::name);
  return found == account.parts.end() ? nullptr : &*found;
}

/// Seconds and shares of one run, with their sum.
Table table_of(const Account& account, const std::vector<std::string>& names) {
  Table table{.columns = {"spent on", "time", "share", "what it is"},
              .caption = "The seconds for which jobs held their nodes"};
  std::int64_t sum = 0;
  for (const std::string& name : names) {
    const Part* part = part_of(account, name);
    if (part == nullptr) continue;
    table.rows.push_back(
        {name, shown_time(part->seconds), shown_per_mille(part->per_mille), meaning_of(name)});
    sum += part->per_mille;
  }
  table.rows.push_back(
      {"allocated", shown_time(account.allocated_s), shown_per_mille(sum), "all of the above"});
  table.rows.push_back({"queued", shown_time(account.queued_s), "-",
                        "between starts of the same job; no node was held, so it is no part of the sum"});
  return table;
}

}  // namespace

std::string goodput(const std::vector<RunView>& runs) {
  const std::vector<std::string> names = names_of_parts(runs);
  const std::vector<std::string> labels = labels_of(runs);
  std::vector<Key> keys;
  for (const std::string& name : names) {
    const std::size_t rank = rank_of(name);
    keys.push_back({name, rank < kKinds.size() ? kKinds[rank].style : kAreaStyles - 1, Key::Mark::kArea});
  }
  std::vector<ValueRow> rows;
  Table shares{.columns = {"spent on"}};
  for (const std::string& name : names) shares.rows.push_back({name});
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const Account& account = runs[run].run.account;
    shares.columns.push_back(labels[run]);
    ValueRow row{.name = labels[run]};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Part* part = part_of(account, names[i]);
      row.values.push_back(part == nullptr ? 0 : part->seconds);
      shares.rows[i].push_back(
          part == nullptr ? "-" : str(shown_per_mille(part->per_mille), ", ", shown_time(part->seconds)));
    }
    if (account.allocated_s > 0) rows.push_back(std::move(row));
  }
  if (rows.empty())
    return section("goodput", "Where the time went",
                   paragraph("Not known: there is no goodput.json.", "note"));
  const bool one = runs.size() == 1;
  const std::string title =
      one ? str("Goodput ", shown_per_mille(runs[0].run.account.good_per_mille())) : "Goodput";
  std::string html =
      share_chart({.id = "goodput-bar",
                   .title = title,
                   .description = "Training and validation are goodput; all else is its price."},
                  keys, rows, shares);
  if (one)
    html += "<div class=\"beside\">" + html_table(table_of(runs[0].run.account, names), "wrapped") + "</div>";
  return section("goodput", "Where the time went", html);
}

}  // namespace echelon::report
