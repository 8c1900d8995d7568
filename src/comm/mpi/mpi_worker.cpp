#include "comm/mpi/mpi_worker.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <future>

#include "base/error.h"
#include "comm/mpi/mpi_library.h"

namespace echelon {

class MpiWorker::Completion final : public Pending::State {
 public:
  void set(const std::exception_ptr& failure) {
    failure ? promise_.set_exception(failure) : promise_.set_value();
  }
  void wait() override { done_.get(); }
  [[nodiscard]] bool wait_for(double seconds) const {
    return done_.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> done_ = promise_.get_future().share();
};

struct MpiWorker::Task {
  std::function<void()> work;
  std::shared_ptr<Completion> completion;
};

namespace {

void start_mpi(int& rank, int& size) {
  // Open MPI 5 ends a process whose connection to another one breaks, unless fault tolerance (ULFM) is on.
  // With it the call returns an error, as in version 4. A value of the user wins (last argument 0).
  setenv("OMPI_MCA_mpi_ft_enable", "1", 0);
  int level = 0;
  // FUNNELED: the thread that initializes MPI is the only one to call it.
  if (mpi().init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS ||
      level < MPI_THREAD_FUNNELED) {
    throw Error(Code::kEnvironment, "MPI_Init_thread failed or offers thread level ", level,
                ", expected MPI_THREAD_FUNNELED (", MPI_THREAD_FUNNELED,
                ") or more: use an MPI built with thread support");
  }
  // The default handler aborts the process; errors must come back as return codes to be reported.
  mpi().comm_set_errhandler(mpi().world, mpi().errors_return);
  mpi().comm_rank(mpi().world, &rank);
  mpi().comm_size(mpi().world, &size);
}

}  // namespace

/// The thread may outlive the object, inside MPI.
struct MpiWorker::Shared {
  int rank = 0;
  int size = 0;
  Mutex mutex;
  std::condition_variable wake;
  std::deque<Task> queue ECHELON_GUARDED_BY(mutex);
  bool ending ECHELON_GUARDED_BY(mutex) = false;

  void serve();
};

MpiWorker::MpiWorker(double timeout_s) : shared_(std::make_shared<Shared>()) {
  thread_ = std::thread([shared = shared_] { shared->serve(); });
  const auto completion = queue([shared = shared_] { start_mpi(shared->rank, shared->size); });
  if (!completion->wait_for(timeout_s)) {
    thread_.detach();  // it is lost inside MPI; the caller reports and exits
    throw Error(Code::kEnvironment, "MPI_Init_thread of ", mpi_library_version(), " did not return within ",
                timeout_s, " s: a rank did not start, or MPI cannot reach its PMIx server");
  }
  try {
    completion->wait();
  } catch (...) {
    end();
    throw;
  }
}

MpiWorker::~MpiWorker() {
  if (thread_.joinable()) end();
}

void MpiWorker::end() {
  {
    const Lock lock(shared_->mutex);
    shared_->ending = true;
    shared_->wake.notify_one();
  }
  thread_.join();
}

int MpiWorker::rank() const {
  return shared_->rank;
}

int MpiWorker::size() const {
  return shared_->size;
}

std::shared_ptr<MpiWorker::Completion> MpiWorker::queue(std::function<void()> task) {
  auto completion = std::make_shared<Completion>();
  const Lock lock(shared_->mutex);
  shared_->queue.push_back({std::move(task), completion});
  shared_->wake.notify_one();
  return completion;
}

Pending MpiWorker::submit(std::function<void()> task) {
  return Pending(queue(std::move(task)));
}

void MpiWorker::finish(double timeout_s) {
  const auto completion = queue([] { mpi().finalize(); });
  if (completion->wait_for(timeout_s)) return;  // after a failure it did nothing, which is known already
  thread_.detach();
  throw Error(Code::kPeer, "MPI_Finalize did not return within ", timeout_s,
              " s: another rank did not reach it");
}

std::byte* MpiWorker::staging(std::size_t bytes) {
  if (bytes > staging_bytes_) {
    staging_.reset();
    // Freed first, so that old and new never exist at the same time. Not std::vector, which would clear it.
    staging_.reset(new std::byte[bytes]);
    staging_bytes_ = bytes;
  }
  return staging_.get();
}

void MpiWorker::Shared::serve() {
  pthread_setname_np(pthread_self(), "echelon-comm");
  prctl(PR_SET_TIMERSLACK, 1000UL);  // default slack is 50 us: naps of 10 us (mpi_exchange.cpp) would take 60
  std::exception_ptr failure;
  while (true) {
    Task task;
    {
      Lock lock(mutex);
      wake.wait(lock, [this]() ECHELON_REQUIRES(mutex) { return !queue.empty() || ending; });
      if (queue.empty()) return;
      task = std::move(queue.front());
      queue.pop_front();
    }
    if (!failure) {
      try {
        task.work();
      } catch (...) {
        failure = std::current_exception();
      }
    }
    // Releases what the task holds before its waiter goes on.
    task.work = nullptr;
    task.completion->set(failure);
  }
}

std::string mpi_library_version() try {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  mpi().get_library_version(text, &length);  // allowed before MPI_Init
  std::string version(text, static_cast<std::size_t>(length));
  // "Open MPI v4.1.4, package: ..., ident: ..."
  return version.substr(0, version.find(','));
} catch (const Error&) {
  return "no Open MPI";
}

void require_mpi() {
  static_cast<void>(mpi());
}

bool mpi_connects_first() {
  constexpr std::string_view kOpenMpi = "Open MPI v";
  const std::string version = mpi_library_version();
  return version.starts_with(kOpenMpi) && std::atoi(version.c_str() + kOpenMpi.size()) >= 5;
}

std::string mpi_thread_level() {
  int running = 0;
  int level = 0;
  mpi().initialized(&running);
  if (running == 0) return "not started";
  mpi().query_thread(&level);
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    default: return "MPI_THREAD_MULTIPLE";
  }
}

}  // namespace echelon
