#include "bootstrap/pmix_client.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/not_copied.h"
#include "base/str.h"
#include "bootstrap/call_thread.h"
#include "bootstrap/pmix_library.h"

namespace echelon {
namespace {

/// Fills a field of a structure that is all zeros.
template <std::size_t kSize>
void fill(char (&field)[kSize], std::string_view text) {
  text.copy(field, kSize - 1);
}

pmix_info_t flag(const char* name) {
  pmix_info_t info{};
  fill(info.key, name);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_info_t deadline(double seconds) {
  pmix_info_t info{};
  fill(info.key, PMIX_TIMEOUT);
  info.value.type = PMIX_INT;
  info.value.data.integer = seconds < 1 ? 1 : static_cast<int>(seconds);
  return info;
}

/// Frees a value that PMIx returned: a number or a string, as asked for.
void release(pmix_value_t* value) {
  if (value->type == PMIX_STRING) std::free(value->data.string);
  std::free(value);
}

/// Arguments and answer of a non-blocking PMIx call. Shared with the call, which may outlive the waiting
/// caller and reads its arguments until it completes.
struct Answer : NotCopied {
  pmix_proc_t about{};
  std::string key;
  std::vector<pmix_info_t> options;

  Mutex mutex;
  std::condition_variable arrived;
  std::optional<pmix_status_t> status ECHELON_GUARDED_BY(mutex);
  std::optional<Blob> bytes;  ///< complete once there is a status

  void set(pmix_status_t value) {
    const Lock lock(mutex);
    status = value;
    arrived.notify_all();
  }
  std::optional<pmix_status_t> wait(double seconds) {
    Lock lock(mutex);
    arrived.wait_for(lock, std::chrono::duration<double>(seconds),
                     [this]() ECHELON_REQUIRES(mutex) { return status.has_value(); });
    return status;
  }
};

/// A non-blocking call carries this handle through PMIx; the callback takes it back exactly once.
void* handle_of(const std::shared_ptr<Answer>& answer) {
  return new std::shared_ptr<Answer>(answer);
}
std::unique_ptr<std::shared_ptr<Answer>> take(void* handle) {
  return std::unique_ptr<std::shared_ptr<Answer>>(static_cast<std::shared_ptr<Answer>*>(handle));
}

void on_fence(pmix_status_t status, void* handle) {
  (*take(handle))->set(status);
}

void on_value(pmix_status_t status, pmix_value_t* value, void* handle) {
  const auto answer = take(handle);
  if (status == PMIX_SUCCESS && value != nullptr && value->type == PMIX_BYTE_OBJECT) {
    const auto* first = reinterpret_cast<const std::byte*>(value->data.bo.bytes);
    (*answer)->bytes = Blob(first, first + value->data.bo.size);
  }
  (*answer)->set(status);
}

pmix_proc_t process(const char* name_space, pmix_rank_t rank) {
  pmix_proc_t proc{};
  fill(proc.nspace, name_space);
  proc.rank = rank;
  return proc;
}

[[noreturn]] void fail(const std::string& doing, pmix_status_t status, const std::string& circumstances) {
  throw Error(Code::kEnvironment, doing, " failed: ", pmix().error_string(status), " (", status, "), ",
              circumstances);
}

}  // namespace

struct PmixClient::Self {
  pmix_proc_t proc{};
  CallThread calls;  ///< for blocking calls, for which PMIx has no deadline
};

PmixClient::PmixClient(const LaunchEnvironment& environment, double timeout_s)
    : environment_(environment), timeout_s_(timeout_s), self_(std::make_shared<Self>()) {
  const auto init = pmix().init;
  // The call may outlive this object; what it writes to must as well.
  const auto status =
      self_->calls.call_within(timeout_s_, [self = self_, init] { return init(&self->proc, nullptr, 0); });
  if (!status) {
    throw Error(Code::kEnvironment, "PMIx_Init did not return within ", timeout_s_,
                " s, waiting for the PMIx server of ", environment_.pmix_namespace, "; ", circumstances());
  }
  if (*status != PMIX_SUCCESS) {
    fail("PMIx_Init", *status,
         circumstances() +
             ", check that the server's PMIX_* variables and its temporary folder, which must not be full, "
             "reach this process");
  }
}

PmixClient::~PmixClient() = default;
int PmixClient::rank() const {
  return static_cast<int>(self_->proc.rank);
}
std::string PmixClient::name_space() const {
  return self_->proc.nspace;
}

int PmixClient::job_size() const {
  const pmix_proc_t all = process(self_->proc.nspace, PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = pmix().get(&all, PMIX_JOB_SIZE, nullptr, 0, &value);
  if (status != PMIX_SUCCESS) fail("querying the number of ranks from PMIx", status, circumstances());
  const bool right_type = value->type == PMIX_UINT32;
  const auto size = static_cast<int>(value->data.uint32);
  const int type = value->type;
  release(value);
  if (!right_type || size < 1) {
    throw Error(Code::kEnvironment, "PMIx returned the number of ranks as type ", type,
                ", expected a positive uint32; ", circumstances());
  }
  return size;
}

std::optional<std::string> PmixClient::host_of(int rank) const {
  const pmix_proc_t proc = process(self_->proc.nspace, static_cast<pmix_rank_t>(rank));
  // PMIX_OPTIONAL asks only for what the library already knows: no request to peers.
  const pmix_info_t known = flag(PMIX_OPTIONAL);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = pmix().get(&proc, PMIX_HOSTNAME, &known, 1, &value);
  if (status != PMIX_SUCCESS || value == nullptr) return std::nullopt;
  std::optional<std::string> host;
  if (value->type == PMIX_STRING && value->data.string != nullptr) host = value->data.string;
  release(value);
  return host;
}

void PmixClient::publish(const std::string& key, const Blob& bytes) {
  pmix_value_t value{};
  value.type = PMIX_BYTE_OBJECT;
  // PMIx copies the bytes; the const_cast only satisfies its C struct.
  value.data.bo.bytes = reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data()));
  value.data.bo.size = bytes.size();
  pmix_status_t status = pmix().put(PMIX_GLOBAL, key.c_str(), &value);
  if (status == PMIX_SUCCESS) status = pmix().commit();
  if (status != PMIX_SUCCESS)
    fail(str("publishing ", bytes.size(), " bytes as '", key, "' through PMIx"), status, circumstances());
}

bool PmixClient::fence(bool collect, const std::string& doing) {
  const auto answer = std::make_shared<Answer>();
  answer->options.push_back(deadline(timeout_s_));
  // Slurm looks only at the presence of this key, so it is left out altogether where no data travel.
  if (collect) answer->options.push_back(flag(PMIX_COLLECT_DATA));
  void* handle = handle_of(answer);
  const pmix_status_t started =
      pmix().fence_nb(nullptr, 0, answer->options.data(), answer->options.size(), on_fence, handle);
  if (started != PMIX_SUCCESS) {
    take(handle);
    if (started == PMIX_OPERATION_SUCCEEDED) return true;
    fail(doing, started, circumstances());
  }
  const auto status = answer->wait(timeout_s_);
  if (!status || *status == PMIX_ERR_TIMEOUT) return false;
  if (*status != PMIX_SUCCESS) fail(doing, *status, circumstances());
  return true;
}

std::optional<Blob> PmixClient::published(int rank, const std::string& key, double wait_s) const {
  const auto answer = std::make_shared<Answer>();
  answer->about = process(self_->proc.nspace, static_cast<pmix_rank_t>(rank));
  answer->key = key;
  answer->options.push_back(deadline(wait_s));
  void* handle = handle_of(answer);
  const pmix_status_t started = pmix().get_nb(&answer->about, answer->key.c_str(), answer->options.data(),
                                              answer->options.size(), on_value, handle);
  if (started != PMIX_SUCCESS) {
    take(handle);
    return std::nullopt;
  }
  if (!answer->wait(wait_s)) return std::nullopt;
  // No lock: the callback sets the status last, under the mutex that wait() has held.
  return answer->bytes;
}

void PmixClient::abort(int exit_code, const std::string& reason) {
  static_cast<void>(self_->calls.call_within(
      1.0, [exit_code, reason] { return pmix().abort(exit_code, reason.c_str(), nullptr, 0); }));
}

void PmixClient::finalize() {
  const auto status = self_->calls.call_within(timeout_s_, [] { return pmix().finalize(nullptr, 0); });
  if (!status) {
    throw Error(Code::kEnvironment, "PMIx_Finalize did not return within ", timeout_s_, " s; ",
                circumstances());
  }
  if (*status != PMIX_SUCCESS) fail("PMIx_Finalize", *status, circumstances());
}

std::string PmixClient::circumstances() const {
  const std::string server =
      environment_.pmix_version.empty() ? "" : str(" (server ", environment_.pmix_version, ")");
  const std::string slurm = environment_.slurm_server()
                                ? str(", Slurm step ", environment_.slurm_job, ".", environment_.slurm_step)
                                : std::string(", under mpirun");
  return str(pmix_version(), server, slurm, known_bad_pair(environment_, pmix_version()));
}

void require_pmix() {
  static_cast<void>(pmix());
}

/// "no PMIx" where none can be loaded: `echelon --version` and doctor go on without it.
std::string pmix_version() try {
  // "OpenPMIx 4.2.2rc2, repo rev: ... (PMIx Standard: ...)" up to 5.x, "4.2.2" and the like elsewhere.
  const std::string text = pmix().get_version();
  const auto first = text.find_first_of("0123456789");
  if (first == text.npos) return "PMIx " + text;
  return "PMIx " + text.substr(first, text.find_first_of(", ", first) - first);
} catch (const Error&) {
  return "no PMIx";
}

}  // namespace echelon
