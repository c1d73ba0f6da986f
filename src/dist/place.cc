// Reading the environment of hone launch, torchrun, Slurm and Open MPI.
#include "dist/place.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/hash.h"
#include "base/strings.h"
#include "hone/error.h"

namespace hone::dist {
namespace {

using Variable = std::function<std::optional<std::string>(const std::string&)>;

int number_of(const Variable& variable, const std::string& name, std::optional<int> standard, int low,
              int high = 1'000'000) {
  const auto text = variable(name);
  if (!text) {
    if (standard) return *standard;
    throw Error(ErrorKind::config,
                fmt::format("environment: {}: missing, where others of the launcher's are set", name))
        .hint("unset RANK and WORLD_SIZE to train in one process");
  }
  const auto value = parse_int(*text);
  if (!value || *value < low || *value > high)
    throw Error(ErrorKind::config, fmt::format("environment: {}: got {}, expected a whole number from {} to {}", name,
                                               hone::quoted(*text), low, high));
  return static_cast<int>(*value);
}

struct Names {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};

// In this order: a launcher may be started by another.
constexpr int kPort = 29500, kPorts = 1000, kLastPort = 65535;

constexpr Names kLaunchers[] = {{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
                                {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                // A step's: of a job that srun has not started there are none of these.
                                {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr}};

// Of launchers that do not serve the store, and of torchrun, whose store outlives a restart of the ranks: "" of the
// others.
std::string job_of(const Variable& variable, const Names& names) {
  const std::string launcher = names.launcher;
  if (variable("HONE_STORE")) return "";  // which hone launch serves, whoever has started that
  if (const auto attempt = variable("TORCHELASTIC_RESTART_COUNT"); attempt && launcher == "torchrun")
    return "attempt " + *attempt;
  if (launcher == "Open MPI") return variable("PMIX_NAMESPACE").value_or("");
  if (launcher != "Slurm") return "";
  return variable("SLURM_JOB_ID").value_or("") + "." + variable("SLURM_STEP_ID").value_or("");
}

// Another one for each of several jobs on a machine.
int default_port(const std::string& job) {
  if (job.empty()) return kPort;
  return kPort + static_cast<int>(hash64(job) % kPorts);
}

bool is_loopback(const std::string& address) { return address == "localhost" || address.starts_with("127."); }

Place read(const Variable& variable, const Names& names) {
  Place place;
  place.launcher = names.launcher;
  place.rank_variable = names.rank;
  place.rank = number_of(variable, names.rank, std::nullopt, 0);
  place.size = number_of(variable, names.size, std::nullopt, 1);
  place.local_rank = number_of(variable, names.local_rank, place.rank, 0);
  // Where nobody says it, ranks may be on several machines as soon as the store is on another one.
  const bool apart = !is_loopback(variable("MASTER_ADDR").value_or("127.0.0.1"));
  place.local_size = names.local_size ? number_of(variable, names.local_size, apart ? 1 : place.size, 1) : place.size;
  if (place.local_rank >= place.local_size) place.local_rank = 0;
  if (const auto nodes = variable("SLURM_STEP_NUM_NODES"); !names.local_size && nodes) {
    const int machines = number_of(variable, "SLURM_STEP_NUM_NODES", 1, 1);
    place.local_size = (place.size + machines - 1) / machines;  // of the fullest, where they do not go up evenly
  }
  if (place.rank >= place.size)
    throw Error(ErrorKind::config, fmt::format("environment: {}: got {}, expected less than {}, {}", names.rank,
                                               place.rank, names.size, place.size));
  return place;
}

}  // namespace

std::optional<Place> find_place(const Variable& variable) {
  for (const Names& names : kLaunchers) {
    if (!variable(names.size) && !(names.launcher == std::string("torchrun") && variable(names.rank))) continue;
    Place place = read(variable, names);
    if (place.size == 1) return std::nullopt;
    const auto address = variable("MASTER_ADDR");
    if (address && address->empty())  // as a script's command that failed leaves it
      throw Error(ErrorKind::config, "environment: MASTER_ADDR: got \"\", expected the name or the address of the "
                                     "machine of rank 0");
    if (!address && !place.on_one_machine())
      throw Error(ErrorKind::config, "environment: MASTER_ADDR: missing: the ranks are on several machines")
          .hint("set MASTER_ADDR to the name of the machine of rank 0, on all of them");
    if (address) place.address = *address;
    place.port = number_of(variable, "MASTER_PORT", default_port(job_of(variable, names)), 1, kLastPort);
    place.store_is_served = variable("HONE_STORE") == "launcher" || variable("TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (variable("HONE_STORE")) place.launcher = "hone launch";
    place.job = job_of(variable, names);
    place.limit_seconds = number_of(variable, "HONE_RANK_TIMEOUT", 60, 1, kLongestLimit);
    return place;
  }
  return std::nullopt;
}

std::optional<Place> find_place() {
  return find_place([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace hone::dist
