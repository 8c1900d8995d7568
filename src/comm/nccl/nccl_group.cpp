#include "comm/nccl/nccl_group.h"

#include <algorithm>

#include "base/standstill.h"
#include "base/str.h"

namespace echelon {
namespace {

using namespace std::chrono_literals;
constexpr auto kLook = 20ms;       // polling interval of the watchdog
constexpr auto kLastLook = 200us;  // the same while the destructor waits for it
constexpr double kSpin_s = 50e-6;  // issuing a collective usually takes some microseconds: spin;
constexpr auto kNap = 50us;        // connecting takes seconds: sleep

/// Non-blocking, so that a missing rank runs into the deadline of settle() and not into a call without end.
ncclConfig_t configuration(const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name.c_str();
  return config;
}

}  // namespace

std::uint64_t mix(std::uint64_t hash, const Operation& operation) {
  const std::uint64_t words[] = {operation.sequence,
                                 operation.count,
                                 operation.label_hash,
                                 static_cast<std::uint64_t>(operation.kind),
                                 static_cast<std::uint64_t>(operation.type),
                                 static_cast<std::uint64_t>(operation.op)};
  for (const std::uint64_t word : words) hash = (hash ^ word) * 1099511628211ULL ^ (hash >> 29);
  return hash;
}

NcclGroup::NcclGroup(const std::string& name, NcclShared shared, const Start& start)
    : shared_(std::move(shared)), handle_(std::make_shared<Handle>(Handle{.name = name})) {
  ncclConfig_t config = configuration(handle_->name);
  try {
    connect(start(&handle_->comm, &config), name);
  } catch (const Error&) {
    ncclCommAbort(handle_->comm);  // accepts NULL
    throw;
  }
  begin_watch();
}

NcclGroup::NcclGroup(const std::string& name, NcclShared shared, NcclGroup& parent, int color, int key)
    : shared_(std::move(shared)), handle_(parent.split_off(name, color, key)) {
  begin_watch();
}

NcclGroup::~NcclGroup() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    wake_.notify_all();
  }
  watchdog_.join();  // ends when no operation is running, or after a failure
  if (aborted_) return;
  if (shared_.failure->text()) {
    end_now();
    return;
  }
  try {
    check(ncclCommFinalize(handle_->comm), "leaving the group");
    ncclCommDestroy(handle_->comm);
  } catch (const Error&) {
    end_now();
  }
}

void NcclGroup::connect(ncclResult_t begun, const std::string& name) {
  try {
    if (begun != ncclSuccess && begun != ncclInProgress)
      throw Error(Code::kEnvironment, ncclGetErrorString(begun), "; ", ncclGetLastError(nullptr));
    settle("connecting the ranks");
  } catch (const Error& error) {
    shared_.failure->check();
    throw Error(Code::kEnvironment, "NCCL cannot make group '", name, "': ", error.what());
  }
}

/// With a non-blocking parent ncclCommSplit returns success at once and leaves the child NULL; the parent
/// reports "in progress" until the child exists. Until then `joining_` keeps alive what NCCL writes to.
std::shared_ptr<NcclGroup::Handle> NcclGroup::split_off(const std::string& name, int color, int key) {
  const Lock calls(calls_);
  shared_.failure->check();
  joining_ = std::make_shared<Handle>(Handle{.name = name});
  ncclConfig_t config = configuration(joining_->name);
  connect(ncclCommSplit(handle_->comm, color, key, &joining_->comm, &config), name);
  if (joining_->comm == nullptr)
    throw Error(Code::kEnvironment, "NCCL did not create group '", name, "' from '", this->name(), "'");
  return std::exchange(joining_, nullptr);
}

/// Aborts the communicator, and a child whose split did not complete.
void NcclGroup::end_now() {
  ncclCommAbort(handle_->comm);  // returns when NCCL's own thread has ended
  if (joining_) ncclCommAbort(joining_->comm);
}

void NcclGroup::settle(const char* doing) {
  double began_s = steady_now_s();
  Standstill standstill;
  ncclResult_t state = ncclInProgress;
  while (true) {
    const ncclResult_t asked = ncclCommGetAsyncError(handle_->comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclInProgress) break;
    shared_.failure->check();  // abort() needs the lock that is held here
    const double now_s = steady_now_s();
    began_s += standstill.lost_s(now_s);
    if (now_s - began_s > shared_.timeout_s) {
      throw Error(Code::kPeer, "NCCL group '", name(), "': ", doing, " took more than ", shared_.timeout_s,
                  " s: a rank did not reach it, or the network between the nodes is closed");
    }
    if (now_s - began_s > kSpin_s) std::this_thread::sleep_for(kNap);
  }
  if (state != ncclSuccess) {
    throw Error(Code::kPeer, "NCCL group '", name(), "': ", doing, ": ", ncclGetErrorString(state), "; ",
                ncclGetLastError(handle_->comm));
  }
}

void NcclGroup::check(ncclResult_t result, const char* doing) {
  if (result == ncclSuccess) return;
  if (result == ncclInProgress) return settle(doing);
  throw Error(Code::kPeer, "NCCL group '", name(), "': ", doing, ": ", ncclGetErrorString(result), "; ",
              ncclGetLastError(handle_->comm));
}

std::shared_ptr<CudaEvent> NcclGroup::issue(const Operation& operation, std::optional<cudaStream_t> after,
                                            const std::function<void(ncclComm_t)>& queue) {
  const Lock calls(calls_);
  shared_.failure->check();
  shared_.history->issued(operation);
  std::shared_ptr<CudaEvent> end;
  try {
    if (after) {
      // Destroying the event right after the wait is queued is allowed: CUDA keeps what it needs.
      const CudaEvent ready(*after);
      check_cuda(cudaStreamWaitEvent(stream(), ready.get(), 0), "ordering communication after computation");
    }
    queue(handle_->comm);
    end = std::make_shared<CudaEvent>(stream());
  } catch (const Error& error) {
    const std::string text =
        str(describe(operation), " (operation #", operation.sequence, "): ", error.what());
    shared_.failure->set(text);  // the watchdogs abort: what NCCL has queued is unknown
    const Lock lock(mutex_);
    wake_.notify_all();
    throw Error(error.code(), text);
  }
  const Lock lock(mutex_);
  under_way_.push_back({operation, end});
  wake_.notify_all();
  return end;
}

bool NcclGroup::passed(const CudaEvent& event) {
  try {
    return event.passed();
  } catch (const Error& error) {
    shared_.failure->set(str("group '", name(), "': ", error.what()));
    throw;
  }
}

void NcclGroup::wait_on_host(const CudaEvent& event) {
  auto nap = 5us;
  while (!passed(event)) {
    shared_.failure->check();
    std::this_thread::sleep_for(nap);
    nap = std::min<std::chrono::microseconds>(nap * 2, 200us);
  }
  shared_.failure->check();  // after an abort events count as passed, too
}

void NcclGroup::abort() {
  // From then on the issuing thread is in no call of NCCL, as it looks for a failure first. The lock is not
  // kept: a rank of this node that is stopped lets the abort wait, and the issuing thread must not.
  { const Lock calls(calls_); }
  {
    const Lock lock(mutex_);
    under_way_.clear();
    aborted_ = true;
  }
  end_now();  // also ends the kernels that wait for other ranks, at once
}

/// Asks NCCL for an asynchronous error. Skipped while the issuing thread holds the lock: settle() asks then.
void NcclGroup::ask(const Operation& stuck) {
  ncclResult_t state = ncclSuccess;
  std::string why;
  {
    const std::unique_lock calls(calls_, std::try_to_lock);
    if (!calls) return;
    ncclCommGetAsyncError(handle_->comm, &state);
    why = ncclGetLastError(handle_->comm);
  }
  if (state == ncclSuccess || state == ncclInProgress) return;
  shared_.failure->set(str("NCCL failed in ", describe(stuck), " (operation #", stuck.sequence, " of group '",
                           name(), "'): ", ncclGetErrorString(state), "; ", why));
}

void NcclGroup::begin_watch() {
  watchdog_ = std::thread([this] { watch(); });
}

void NcclGroup::watch() {
  cudaSetDevice(shared_.device);
  // The deadline counts from the end of the operation before, not from the issue: a long queue is no hang.
  double last_end_s = steady_now_s();
  Standstill standstill;
  Lock lock(mutex_);
  while (true) {
    const double now_s = steady_now_s();  // the only one that is judged: a stop may come at any line
    last_end_s += standstill.lost_s(now_s);
    if (shared_.failure->text()) {
      lock.unlock();
      return abort();
    }
    try {
      while (!under_way_.empty() && passed(*under_way_.front().end)) {
        shared_.history->done(under_way_.front().operation.sequence);
        under_way_.pop_front();
        last_end_s = steady_now_s();
      }
    } catch (const Error&) {
      continue;  // the next round sees the failure
    }
    if (under_way_.empty()) {
      if (ending_) return;
      wake_.wait(lock, [this]() ECHELON_REQUIRES(mutex_) {
        return ending_ || !under_way_.empty() || shared_.failure->text();
      });
      last_end_s = steady_now_s();
      standstill = {};
      continue;
    }
    const Operation stuck = under_way_.front().operation;
    lock.unlock();
    ask(stuck);
    if (now_s - last_end_s > shared_.timeout_s) {
      shared_.failure->set(str(describe(stuck), " (operation #", stuck.sequence, " of group '", name(),
                               "') did not end within ", shared_.timeout_s,
                               " s: a rank did not reach it, issued another operation, or died; see the "
                               "other ranks' logs"));
      return abort();
    }
    lock.lock();
    wake_.wait_for(lock, std::chrono::microseconds(ending_ ? kLastLook : kLook));
  }
}

}  // namespace echelon
