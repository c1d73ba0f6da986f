// hone launch: several processes of this program, on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/cpus.h"
#include "base/log.h"
#include "base/strings.h"
#include "dist/launcher.h"
#include "dist/place.h"
#include "hone/command.h"
#include "hone/registry.h"

namespace hone::cli {
namespace {

std::vector<std::string> commands_of_ranks() {
  const auto& commands = registries().commands;
  std::vector<std::string> names;
  for (const std::string& name : commands.names())
    if (name != "launch" && commands.make(name, *commands.options(name))->usage().together) names.push_back(name);
  return names;
}

bool asks_for_help(const std::string& argument) { return argument == "--help" || argument == "-h"; }

class Launch final : public Command {
 public:
  struct Config {
    std::optional<std::int64_t> n;
    std::int64_t threads = 0, timeout = 0;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("n", &C::n, "Ranks: processes that work together.", {.low = 1, .high = 1024}),
          field("threads", &C::threads, "Threads of each; 0: a fair share, or what OMP_NUM_THREADS says.", at_least(0)),
          field("timeout", &C::timeout,
                "Seconds of silence after which a rank is lost, and the others end; at the start five times as long; "
                "0: what HONE_RANK_TIMEOUT says, or 60.",
                {.low = 0, .high = dist::kLongestLimit})};
    }
    void validate(Problems& problems) const {
      problems.require(n.has_value(), "n", "missing: how many ranks, as in -n 2");
    }
  };
  explicit Launch(const Config& config) : flags_(config) {}

  Usage usage() const override {
    Usage usage{"-n RANKS COMMAND [ARGUMENTS ...]",
                {"hone launch -n 2 train recipe.yaml", "hone launch -n 4 --threads 8 train recipe.yaml --run.seed=2",
                 "hone launch -n 2 bench recipe.yaml"},
                1,
                1'000'000};
    usage.passes_on = true;
    return usage;
  }

  int run(const Invocation& call) override {
    const std::string& command = call.positionals[0];
    const std::vector<std::string> known = commands_of_ranks(), all = registries().commands.names();
    if (std::find(all.begin(), all.end(), command) == all.end())
      throw Error(ErrorKind::usage, fmt::format("hone launch: {}: no such command; several ranks do {}",
                                                hone::quoted(command), join(known, ", ")));
    if (std::find(known.begin(), known.end(), command) == known.end()) {
      Error error(ErrorKind::usage, fmt::format("hone launch: {}: is not done by several ranks; there are {}",
                                                hone::quoted(command), join(known, ", ")));
      if (command == "launch") throw error;
      throw std::move(error).hint(fmt::format("hone {} alone", command));
    }
    dist::LaunchOptions options;
    const bool help = std::any_of(call.positionals.begin(), call.positionals.end(), asks_for_help);
    options.ranks = help ? 1 : static_cast<int>(*flags_.n);
    constexpr int kMostOnAProcessor = 4;
    if (const int there = threads_by_cpu(cpus()); options.ranks > kMostOnAProcessor * there)
      log::warning("hone launch: {} ranks share {}: each starts, loads its model and waits for the others in its turn",
                   options.ranks, counted(there, "processor"));
    options.threads = static_cast<int>(flags_.threads);
    options.limit_seconds = static_cast<double>(flags_.timeout);
    options.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
    for (const std::string& plugin : call.plugins) options.command.push_back("--plugin=" + plugin);
    if (call.quiet) options.command.push_back("--quiet");
    if (call.json) options.command.push_back("--json");
    options.command.insert(options.command.end(), call.positionals.begin(), call.positionals.end());
    return dist::launch(options);
  }

 private:
  Config flags_;
};

}  // namespace

void register_launch(Registries& hone) {
  hone.commands.add<Launch>("launch", "Train with several processes of one machine.");
}

}  // namespace hone::cli
