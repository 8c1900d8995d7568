#include "liveness/nodes_file.h"

#include <condition_variable>
#include <exception>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/files/fs.h"
#include "base/files/new_file.h"
#include "base/foreign_text.h"
#include "base/mutex.h"
#include "base/number.h"
#include "base/utc_time.h"

namespace echelon {
namespace {

std::string text_of(const std::vector<NodeState>& nodes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const NodeState& node : nodes) {
    list.push_back({{"host", node.host},
                    {"ranks", node.ranks},
                    {"silent_s", rounded(node.silent_s, 3)},
                    {"step", node.step},
                    {"state", word_of(node.life)}});
  }
  return json_text(nlohmann::ordered_json{{"time", rounded(utc_now_s(), 3)}, {"nodes", list}}, -1) + "\n";
}

}  // namespace

struct NodesFile::Book {
  std::filesystem::path file;
  Mutex mutex;
  std::condition_variable changed;
  std::string text ECHELON_GUARDED_BY(mutex);  // to be written; empty: nothing is
  bool over ECHELON_GUARDED_BY(mutex) = false;

  void write_until_over() {
    Lock lock(mutex);
    while (true) {
      changed.wait(lock, [this]() ECHELON_REQUIRES(mutex) { return over || !text.empty(); });
      if (over) return;
      const std::string now = std::exchange(text, "");
      lock.unlock();
      try {
        fs::replace_file(file, now, Code::kEnvironment);
      } catch (const std::exception&) {
        // For people only; the run's other files say when its disk is full.
      }
      lock.lock();
    }
  }
};

NodesFile::NodesFile(std::filesystem::path file) : book_(std::make_shared<Book>()) {
  book_->file = std::move(file);
  std::thread([book = book_] { book->write_until_over(); }).detach();
}

NodesFile::~NodesFile() {
  const Lock lock(book_->mutex);
  book_->over = true;
  book_->changed.notify_all();
}

void NodesFile::show(const std::vector<NodeState>& nodes) {
  const std::string text = text_of(nodes);
  const Lock lock(book_->mutex);
  book_->text = text;
  book_->changed.notify_all();
}

}  // namespace echelon
