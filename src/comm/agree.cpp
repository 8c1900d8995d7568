#include "comm/agree.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>

#include "base/error.h"

namespace echelon {
namespace {

/// The exit code for an exception that is no Error: usually std::bad_alloc.
constexpr Code kForeign = Code::kTraining;

}  // namespace

void agree(Communicator& comm, std::string_view label, const std::function<void()>& body) {
  Blob status(1);  // allocated before `body` can exhaust the memory
  std::exception_ptr mine;
  Code code{};
  try {
    body();
  } catch (const Error& e) {
    mine = std::current_exception();
    code = e.code();
  } catch (...) {
    mine = std::current_exception();
    code = kForeign;
  }
  status[0] = static_cast<std::byte>(code);
  const std::vector<Blob> all = comm.gather_blobs(status, label);
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int theirs = std::to_integer<int>(all[static_cast<std::size_t>(rank)].at(0));
    if (theirs == 0) continue;
    // All ranks follow the lowest failing one: one rank prints, all exit with the same code.
    if (rank == comm.rank()) std::rethrow_exception(mine);
    throw Error::already_reported(static_cast<Code>(theirs));
  }
}

void agree_at_length(Communicator& comm, std::string_view label, const std::function<void()>& body,
                     const std::function<std::uint64_t()>& progress) {
  constexpr double kMost_s = 0.25;  // well below the shortest deadline of a collective
  std::promise<void> ended;
  std::future<void> others = std::async(std::launch::async, [&, mine = ended.get_future()] {
    std::uint64_t before = progress ? progress() : 0;
    for (double slice_s = 0.01;; slice_s = std::min(2 * slice_s, kMost_s)) {
      const auto is_over = [&] {
        return mine.wait_for(std::chrono::duration<double>(slice_s)) == std::future_status::ready;
      };
      bool over = is_over();
      while (!over && progress && progress() == before) over = is_over();
      if (progress) before = progress();
      double working = over ? 0 : 1;
      comm.all_reduce(&working, 1, DType::kF64, ReduceOp::kSum, label).wait();
      if (working == 0) return;
    }
  });
  std::exception_ptr thrown;
  try {
    body();
  } catch (...) {
    thrown = std::current_exception();
  }
  ended.set_value();
  others.get();
  agree(comm, label, [&] {
    if (thrown) std::rethrow_exception(thrown);
  });
}

void check_digests(const Communicator& comm, double sum) {
  // Exact in fp64: 32 bits per rank leave room for 2^21 ranks.
  if (sum == static_cast<double>(comm.digest()) * comm.size()) return;
  const std::vector<std::string> last = comm.recent();
  throw Error(Code::kPeer, "rank ", comm.rank(),
              " has issued different operations than the other ranks; its last: ",
              last.empty() ? "none" : last.back(), "; compare with their logs");
}

}  // namespace echelon
