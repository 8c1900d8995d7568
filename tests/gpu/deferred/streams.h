#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>

#include "gpu/deferred/deferred_device.h"
#include "gpu/stand_in/books.h"

namespace echelon::test::deferred {

/// The device's streams and the accesses to its memory. Locked by its callers.
class Streams {
 public:
  Streams() { add(); }
  static Streams& instance();

  std::recursive_mutex mutex;
  Seen seen;
  int host_waits = 0;

  /// Notes an ordering call; whether it is to be left out. Those that PyTorch makes are not ours.
  bool leaves_out(const std::string& what);
  void restart(std::string left_out);

  /// A stream more; its number.
  std::size_t add();
  /// Adds an operation, done when it is due; its accesses are judged now.
  void give(std::size_t stream, const std::string& what, const std::vector<Access>& accesses,
            std::function<void()> body);
  /// Does all that `stream` has, up to its operation number `until`.
  void run(std::size_t stream, std::uint64_t until = UINT64_MAX);
  void run_all();

  struct Event {
    std::size_t stream = 0;
    std::uint64_t number = 0;
    stand_in::Clock clock;
  };
  [[nodiscard]] Event record(std::size_t stream);
  void block(std::size_t stream, const Event& event);
  void hold_host(const Event& event);
  void hold_host(std::size_t stream) { hold_host(record(stream)); }

  void allocated(const void* begin, std::size_t bytes, std::size_t stream);
  void used_by(const void* begin, std::size_t stream);
  /// The memory may be given to somebody else, in the order of the stream it was allocated for.
  void freed(const void* begin);

 private:
  struct Operation {
    std::uint64_t number;
    std::function<void()> body;
  };
  struct Stream {
    std::deque<Operation> waiting;
    stand_in::Clock clock;
  };
  struct Block {
    std::size_t bytes;
    std::size_t stream;
    std::vector<std::size_t> users;
  };
  void note(const std::string& finding);

  std::string left_out_;
  stand_in::Books books_;
  std::deque<Stream> streams_;  ///< a timeline of the books each, by its number
  stand_in::Clock host_;        ///< what the host has waited for
  std::map<const void*, Block> blocks_;
};

}  // namespace echelon::test::deferred
