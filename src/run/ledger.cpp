#include "run/ledger.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/files/own_file.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process/process.h"
#include "base/steady_time.h"
#include "base/str.h"
#include "base/utc_time.h"
#include "run/job_end.h"
#include "run/start_notes.h"

namespace echelon {
namespace {

constexpr double kShare = 0.005;
constexpr double kOftenest_s = 0.1;
constexpr double kRarest_s = 5;
constexpr std::chrono::seconds kPatience{5};  // for a disk that may hang
constexpr double kLongestLeaving_s = 600;
constexpr std::size_t kRecent = 32;
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

/// The first unused name for a file that is set aside.
std::filesystem::path aside(const std::filesystem::path& file) {
  for (int n = 1;; ++n) {
    std::filesystem::path name = file;
    name += str(".unreadable-", n);
    if (!std::filesystem::exists(std::filesystem::symlink_status(name))) return name;
  }
}

/// `problem`: why a file that is there cannot be continued.
Goodput take_up(const std::filesystem::path& file, std::string& problem) {
  try {
    if (!std::filesystem::exists(std::filesystem::symlink_status(file))) return {};
    const std::string text = fs::read_own_file(file, kMostBytes, Code::kEnvironment);
    return in_context(str("'", file.string(), "'"), [&] { return Goodput::parse(text); });
  } catch (const std::exception& e) {
    problem = e.what();
  }
  return {};
}

void set_aside(const std::filesystem::path& file, const std::string& problem) {
  try {
    const std::filesystem::path to = aside(file);
    log::warn(str(problem, "; it is kept as '", to.filename().string(),
                  "', and the account of this run's time begins anew"));
    fs::rename(file, to, Code::kEnvironment);
  } catch (const std::exception& e) {  // the disk's troubles; the run does not need this file
    log::warn(str("the account of this run's time begins anew: ", e.what()));
  }
}

/// Adds to `last` the time from rank 0's last record until all ranks had exited, during which the job held
/// its nodes.
void account_for_leaving(RunStart& last, const std::filesystem::path& run_dir, double next_began_s) {
  if (last.job.empty()) return;
  const auto noted = noted_end(run_dir, last.job, last.ended_s);
  if (!noted || noted->gone_s > last.ended_s + kLongestLeaving_s) return;
  const double gone_s = std::min(noted->gone_s, next_began_s);
  if (gone_s <= last.ended_s) return;
  if (noted->lost_s) {
    const double noticed_s = std::clamp(*noted->lost_s, last.ended_s, gone_s);
    last[Spent::kDetect] += noticed_s - last.ended_s;
    last[Spent::kLeave] += gone_s - noticed_s;
  } else {
    last[Spent::kIdle] += gone_s - last.ended_s;
  }
  last.ended_s = gone_s;
}

std::vector<std::string> without_repetitions(std::vector<std::string> names) {
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// The last step of the starts that followed each other within the allocation of the next one.
std::int64_t trained_in_this_allocation(const std::vector<RunStart>& starts) {
  std::int64_t step = 0;
  for (auto start = starts.rbegin(); start != starts.rend(); ++start) {
    step = std::max(step, start->last_step);
    if (!start->in_place) break;
  }
  return step;
}

/// Atomic for readers. Only the last text is flushed: the others need not survive a loss of power, and an
/// fsync every few seconds is expensive on shared file systems.
void replace(const std::filesystem::path& file, const std::string& text, bool durable) {
  if (durable)
    fs::publish_file(file, text, Code::kEnvironment);
  else
    fs::replace_file(file, text, Code::kEnvironment);
}

}  // namespace

/// Shared by the callers and the writing thread, which may outlive the object on a hanging disk.
struct Ledger::Book {
  struct Interval {
    Spent spent;
    double begin_s;
    double end_s;
  };

  std::filesystem::path file;
  std::function<double()> now_s;

  mutable Mutex mutex;
  std::condition_variable asked;
  std::condition_variable written;
  Goodput goodput ECHELON_GUARDED_BY(mutex);  // the last start is this one
  Spent spent ECHELON_GUARDED_BY(mutex) = Spent::kStart;
  double since_s ECHELON_GUARDED_BY(mutex) = 0;
  std::deque<Interval> recent ECHELON_GUARDED_BY(mutex);
  std::map<std::int64_t, double> saving ECHELON_GUARDED_BY(mutex);  // step -> seconds of training until then
  std::string unreadable;                                           // why the file was not continued
  bool begun ECHELON_GUARDED_BY(mutex) = false;                     // the file is written
  bool still ECHELON_GUARDED_BY(mutex) = false;                     // until the end
  bool over ECHELON_GUARDED_BY(mutex) = false;
  bool kept ECHELON_GUARDED_BY(mutex) = false;  // the file holds the end

  std::string restarts;  // what logs/restarts.jsonl holds

  RunStart& mine() ECHELON_REQUIRES(mutex) { return goodput.starts.back(); }
  /// The use that time counts as: steps that earlier starts trained count as redone.
  Spent counted() ECHELON_REQUIRES(mutex) {
    const bool again = mine().in_place && mine().last_step < mine().in_place->redo_until;
    return again && spent == Spent::kTrain ? Spent::kRedo : spent;
  }
  /// Both files. Only one thread calls it.
  void write(const std::string& text, const std::string& new_restarts, bool last);
  /// Until now.
  void settle() ECHELON_REQUIRES(mutex) {
    if (over) return;
    const double now = std::max(now_s(), since_s);
    mine()[counted()] += now - since_s;
    if (!recent.empty() && recent.back().spent == counted()) {
      recent.back().end_s = now;
    } else {
      recent.push_back({counted(), since_s, now});
      if (recent.size() > kRecent) recent.pop_front();
    }
    since_s = mine().ended_s = now;
  }
  void write_until_over();
};

void Ledger::Book::write(const std::string& text, const std::string& new_restarts, bool last) {
  replace(file, text, last);
  if (new_restarts == restarts) return;
  replace(file.parent_path() / "logs/restarts.jsonl", new_restarts, last);
  restarts = new_restarts;
}

void Ledger::Book::write_until_over() {
  bool warned = false;
  Lock lock(mutex);
  while (!kept) {
    settle();
    const bool last = over;
    const std::string text = goodput.to_json();
    const std::string new_restarts = goodput.restarts();
    lock.unlock();
    try {
      write(text, new_restarts, last);
    } catch (const Error& e) {
      if (!warned) log::warn(str("the account of this run's time is not kept: ", e.what()));
      warned = true;
    }
    lock.lock();
    kept = last;
    const double pause = std::clamp(kShare * (since_s - mine().began_s), kOftenest_s, kRarest_s);
    if (!kept)
      asked.wait_for(lock, std::chrono::duration<double>(pause),
                     [&]() ECHELON_REQUIRES(mutex) { return over; });
  }
  written.notify_all();
}

Ledger::Start Ledger::this_start(const std::vector<std::string>& hosts) {
  Start start{
      .run = {.job = this_job(),
              .restart = static_cast<std::int64_t>(seconds_in_environment("SLURM_RESTART_COUNT").value_or(0)),
              .ranks = static_cast<std::int64_t>(hosts.size()),
              .began_s = process_began_s()},
      .ran_s = process_began_s()};
  RunStart& run = start.run;
  const auto stated = seconds_in_environment("ECHELON_STARTED_AT");
  if (stated && *stated < run.began_s) run.began_s = *stated;
  if (restarts_in_place()) {
    run.in_place = InPlace{.failed_s = seconds_in_environment("ECHELON_FAILED_AT").value_or(run.began_s),
                           .cause = printable(environment_variable("ECHELON_RESTART_CAUSE")),
                           .left_out = split(printable(environment_variable("ECHELON_LEFT_OUT")), ','),
                           .nodes = without_repetitions(hosts)};
  }
  return start;
}

Ledger::Ledger() : book_(std::make_shared<Book>()) {
  book_->now_s = [] { return 0.0; };
  book_->goodput.starts.emplace_back();
}

Ledger::Ledger(std::filesystem::path file, Start start, std::function<double()> now_s)
    : book_(std::make_shared<Book>()) {
  Book& book = *book_;
  book.file = std::move(file);
  book.now_s = std::move(now_s);
  book.goodput = take_up(book.file, book.unreadable);
  const double now = book.now_s();
  std::vector<RunStart>& starts = book.goodput.starts;
  RunStart& mine = start.run;
  if (!starts.empty() && starts.back().job == mine.job)
    account_for_leaving(starts.back(), book.file.parent_path(), std::min(now, mine.began_s));
  double free_s = 0;  // no second counts twice, even if one script starts the run several times
  for (RunStart& earlier : starts) {
    // Only a start that could not write its end still says "running".
    if (earlier.end == StartEnd::kRunning) earlier.end = StartEnd::kKilled;
    free_s = std::max(free_s, earlier.ended_s);
  }
  if (starts.empty()) mine.in_place.reset();  // the account was lost
  // Nodes are held between starts in place. One may have been lost before it could account for itself.
  const double began = std::min(now, mine.in_place ? free_s : std::max(mine.began_s, free_s));
  if (mine.in_place) mine.in_place->redo_until = trained_in_this_allocation(starts);
  mine.began_s = mine.ended_s = book.since_s = began;
  starts.push_back(std::move(mine));
  if (book.mine().in_place) {
    book.since_s = book.mine().ended_s = std::clamp(start.ran_s, began, now);
    book.mine()[Spent::kLaunch] = book.since_s - began;
    book.spent = Spent::kLoad;
  }
  if (!start.held) begin();
}

void Ledger::begin() {
  {
    const Lock lock(book_->mutex);
    if (book_->file.empty() || std::exchange(book_->begun, true)) return;
  }
  if (!book_->unreadable.empty()) set_aside(book_->file, book_->unreadable);
  // Detached: a write on a hanging disk cannot be interrupted, and must not keep the process from ending.
  std::thread([book = book_] { book->write_until_over(); }).detach();
}

bool Ledger::has_begun() const {
  const Lock lock(book_->mutex);
  return book_->begun;
}

Ledger::~Ledger() {
  end(StartEnd::kFailed);
}

Spent Ledger::enter(Spent spent) {
  const Lock lock(book_->mutex);
  book_->settle();
  // Loading ends with the first step, and does not come back after the last one.
  const Spent before = book_->spent == Spent::kLoad ? Spent::kStart : book_->spent;
  if (!book_->still) book_->spent = spent;
  return before;
}

void Ledger::resumed(std::int64_t step) {
  const Lock lock(book_->mutex);
  RunStart& mine = book_->mine();
  // What a restart in place does again counts where it is done.
  if (!mine.in_place) {
    for (RunStart& start : book_->goodput.starts) start.lose_after(step);
  }
  mine.first_step = mine.last_step = mine.saved_step = step;
}

void Ledger::trained(std::int64_t step) {
  const Lock lock(book_->mutex);
  book_->settle();
  book_->mine().last_step = step;
}

void Ledger::took(const Durations& durations) {
  const Lock lock(book_->mutex);
  book_->mine().took = durations;
}

void Ledger::saving(std::int64_t step) {
  const Lock lock(book_->mutex);
  book_->settle();
  // Saves are committed in the background while training goes on, so the time is noted now and counted when
  // the commit is known.
  book_->saving[step] = book_->mine()[Spent::kTrain];
}

void Ledger::saved(std::int64_t step) {
  const Lock lock(book_->mutex);
  const auto found = book_->saving.find(step);
  if (found == book_->saving.end()) return;
  book_->mine().saved_step = step;
  book_->mine().until_saved_s = found->second;
  book_->saving.erase(book_->saving.begin(), std::next(found));
}

void Ledger::stood_still_since(double time_s) {
  const Lock lock(book_->mutex);
  if (book_->over || book_->still) return;
  book_->settle();
  RunStart& mine = book_->mine();
  // A fault is noticed only after a timeout. What was counted as training since then was waiting.
  for (const Book::Interval& interval : book_->recent) {
    const double taken = interval.end_s - std::max(interval.begin_s, time_s);
    if (taken <= 0) continue;
    mine[interval.spent] -= taken;
    mine[Spent::kDetect] += taken;
  }
  book_->spent = Spent::kLeave;
  book_->still = true;
}

void Ledger::end(StartEnd how) {
  Lock lock(book_->mutex);
  if (!book_->over) {
    book_->settle();
    book_->mine().end = how;
    book_->over = true;
    book_->asked.notify_all();
  }
  if (book_->begun)
    book_->written.wait_for(lock, kPatience, [&]() ECHELON_REQUIRES(book_->mutex) { return book_->kept; });
}

Durations Ledger::earlier() const {
  const Lock lock(book_->mutex);
  const std::vector<RunStart>& starts = book_->goodput.starts;
  Durations known;
  for (auto start = std::next(starts.rbegin()); start != starts.rend(); ++start) {
    // Times on another number of ranks say nothing about this one.
    if (start->ranks != starts.back().ranks) continue;
    if (!known.step) known.step = start->took.step;
    if (!known.save) known.save = start->took.save;
    if (!known.validation) known.validation = start->took.validation;
  }
  return known;
}

std::optional<StartEnd> Ledger::last_end() const {
  const Lock lock(book_->mutex);
  const std::vector<RunStart>& starts = book_->goodput.starts;
  if (starts.size() < 2) return std::nullopt;
  return starts[starts.size() - 2].end;
}

std::string Ledger::summary() const {
  const Lock lock(book_->mutex);
  book_->settle();
  return book_->goodput.summary();
}

std::function<double()> steady_utc_clock() {
  const auto anchor = std::chrono::steady_clock::now();
  return [anchor, at_anchor = utc_now_s()] { return at_anchor + seconds_since(anchor); };
}

}  // namespace echelon
