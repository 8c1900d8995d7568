#include "comm/nccl/nccl_group.h"

#include "base/str.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;
constexpr auto kLook = 20ms;    // how often the watchdog looks
constexpr auto kSettle = 50us;  // how often a starting NCCL call is asked whether it is through

}  // namespace

NcclGroup::NcclGroup(std::string name, NcclShared shared, const Start& start)
    : name_(std::move(name)), shared_(std::move(shared)) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // so that a missing rank meets our deadline and not an endless call
  config.commName = name_.c_str();
  const ncclResult_t started = start(&comm_, &config);
  if (started != ncclSuccess && started != ncclInProgress) {
    throw Error(Code::kEnvironment, str("NCCL cannot make group '", name_, "': ", ncclGetErrorString(started),
                                        "; ", ncclGetLastError(nullptr)));
  }
  try {
    settle("connecting the ranks", shared_.timeout_s);
  } catch (const Error& error) {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    throw Error(Code::kEnvironment, error.what());
  }
  watchdog_ = std::thread([this] { watch(); });
}

NcclGroup::~NcclGroup() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wake_.notify_all();
  }
  watchdog_.join();  // returns when nothing is under way, or after a failure
  if (aborted_) return;
  if (shared_.failure->text()) {
    ncclCommAbort(comm_);
    return;
  }
  try {
    for (const auto& [memory, handle] : registered_)
      check(ncclCommDeregister(comm_, handle), "releasing a buffer");
    check(ncclCommFinalize(comm_), "leaving the group");
    ncclCommDestroy(comm_);
  } catch (const Error&) {
    ncclCommAbort(comm_);
  }
}

void NcclGroup::settle(const char* doing, double timeout_s) {
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout_s));
  ncclResult_t state = ncclInProgress;
  while (true) {
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclInProgress) break;
    if (Clock::now() > deadline) {
      throw Error(Code::kPeer,
                  str("NCCL group '", name_, "': ", doing, " took more than ", timeout_s,
                      " s: a rank did not come to it, or the network between the nodes is closed"));
    }
    std::this_thread::sleep_for(kSettle);
  }
  if (state != ncclSuccess) {
    throw Error(Code::kPeer, str("NCCL group '", name_, "': ", doing, ": ", ncclGetErrorString(state), "; ",
                                 ncclGetLastError(comm_)));
  }
}

void NcclGroup::check(ncclResult_t result, const char* doing) {
  if (result == ncclSuccess) return;
  if (result == ncclInProgress) return settle(doing, shared_.timeout_s);
  throw Error(Code::kPeer, str("NCCL group '", name_, "': ", doing, ": ", ncclGetErrorString(result), "; ",
                               ncclGetLastError(comm_)));
}

ncclResult_t NcclGroup::begin(const std::function<ncclResult_t(ncclComm_t)>& call) {
  const std::lock_guard lock(calls_);
  check_alive();
  return call(comm_);
}

void NcclGroup::register_buffer(void* memory, std::size_t bytes) {
  const std::lock_guard lock(calls_);
  check_alive();
  void* handle = nullptr;
  if (ncclCommRegister(comm_, memory, bytes, &handle) == ncclSuccess && handle != nullptr)
    registered_[memory] = handle;
}

void NcclGroup::forget_buffer(void* memory) {
  try {
    std::shared_ptr<CudaEvent> last;
    {
      const std::lock_guard lock(mutex_);
      if (!under_way_.empty()) last = under_way_.back().end;
    }
    if (last) wait_on_host(*last);
    const std::lock_guard calls(calls_);
    check_alive();
    const auto found = registered_.find(memory);
    if (found == registered_.end()) return;
    void* handle = found->second;
    registered_.erase(found);
    check(ncclCommDeregister(comm_, handle), "releasing a buffer");
  } catch (const Error&) {
    // The watchdog ends a communicator that has failed, and with it what it knew.
  }
}

std::shared_ptr<CudaEvent> NcclGroup::issue(const Operation& operation, cudaStream_t after,
                                            const std::function<void(ncclComm_t)>& queue) {
  const std::lock_guard calls(calls_);
  check_alive();
  shared_.history->issued(operation);
  const CudaEvent ready(after);
  check_cuda(cudaStreamWaitEvent(stream(), ready.get(), 0), "ordering communication after computation");
  try {
    queue(comm_);
  } catch (const Error& error) {
    const std::string text =
        str(describe(operation), " (operation #", operation.sequence, "): ", error.what());
    shared_.failure->set(text);  // the watchdogs abort
    const std::lock_guard lock(mutex_);
    wake_.notify_all();
    throw Error(error.code(), text);
  }
  auto end = std::make_shared<CudaEvent>(stream());
  const std::lock_guard lock(mutex_);
  under_way_.push_back({operation, end});
  wake_.notify_all();
  return end;
}

void NcclGroup::check_alive() {
  if (const auto failure = shared_.failure->text()) throw Error(Code::kPeer, *failure);
}

void NcclGroup::wait_on_host(const CudaEvent& event) {
  auto nap = 5us;
  while (!event.passed()) {
    check_alive();
    std::this_thread::sleep_for(nap);
    nap = std::min<std::chrono::microseconds>(nap * 2, 200us);
  }
  check_alive();  // an abort lets the stream pass, too
}

void NcclGroup::fail(const std::string& text) {
  shared_.failure->set(text);
  abort();
}

void NcclGroup::abort() {
  const std::lock_guard calls(calls_);
  {
    const std::lock_guard lock(mutex_);
    under_way_.clear();
    aborted_ = true;
  }
  ncclCommAbort(comm_);  // ends the kernels that wait for other ranks
}

void NcclGroup::watch() {
  cudaSetDevice(shared_.device);
  auto last_end = Clock::now();
  std::unique_lock lock(mutex_);
  while (true) {
    if (shared_.failure->text()) {
      lock.unlock();
      return abort();
    }
    if (under_way_.empty()) {
      if (ending_) return;
      wake_.wait(lock, [this] { return ending_ || !under_way_.empty() || shared_.failure->text(); });
      last_end = Clock::now();
      continue;
    }
    while (!under_way_.empty() && under_way_.front().end->passed()) {
      shared_.history->done(under_way_.front().operation.sequence);
      under_way_.pop_front();
      last_end = Clock::now();
    }
    if (under_way_.empty()) continue;
    const Operation stuck = under_way_.front().operation;
    const double waited = std::chrono::duration<double>(Clock::now() - last_end).count();
    lock.unlock();
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm_, &state);
    if (state != ncclSuccess && state != ncclInProgress) {
      return fail(str("NCCL failed in ", describe(stuck), " (operation #", stuck.sequence, " of group '",
                      name_, "'): ", ncclGetErrorString(state), "; ", ncclGetLastError(comm_)));
    }
    if (waited > shared_.timeout_s) {
      return fail(str(describe(stuck), " (operation #", stuck.sequence, " of group '", name_,
                      "') did not end within ", shared_.timeout_s,
                      " s: a rank did not come to it, issued another operation, or died; see the other "
                      "ranks' logs"));
    }
    lock.lock();
    wake_.wait_for(lock, kLook, [this] { return ending_ && under_way_.empty(); });
  }
}

}  // namespace echelon
