#include "ops/cuda/chaining.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "hone/error.h"
#include "ops/cuda/chain.h"
#include "ops/cuda/gpus.h"

namespace hone::ops::cuda_table {
namespace {

void check(CUresult result) { Gpus::all().driver().check(result, "a chain of launches"); }

// Of a graph whose nodes come one after another, however early; empty: others do.
std::vector<CUgraphNode> nodes_in_order(CUgraph graph) {
  const Driver& driver = Gpus::all().driver();
  std::size_t count = 0;
  check(driver.edges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> how(count);  // without it, edges of early launches are refused
  if (count > 0) check(driver.edges(graph, from.data(), to.data(), how.data(), &count));
  std::map<CUgraphNode, CUgraphNode> next, before;
  for (std::size_t i = 0; i < count; ++i)
    if (!next.emplace(from[i], to[i]).second || !before.emplace(to[i], from[i]).second) return {};
  std::vector<CUgraphNode> made;
  for (const CUgraphNode each : from)
    if (!before.contains(each)) made.push_back(each);
  if (made.size() != 1) return {};
  for (auto found = next.find(made[0]); found != next.end(); found = next.find(found->second))
    made.push_back(found->second);
  return made.size() == count + 1 ? made : std::vector<CUgraphNode>{};
}

// A node that launches what can be a step.
struct StepNode {
  CUgraphNode node;
  Launched launch;
  at::ScalarType type;
};
std::optional<StepNode> step_of(CUgraphNode node) {
  Gpus& gpus = Gpus::all();
  const Driver& driver = gpus.driver();
  CUgraphNodeType type{};
  check(driver.type(node, &type));
  if (type != CU_GRAPH_NODE_TYPE_KERNEL) return {};
  CUDA_KERNEL_NODE_PARAMS_v2 given{};
  if (driver.parameters(node, &given) != CUDA_SUCCESS) return {};  // a library's, which the driver may not tell
  const Gpus::Known known = gpus.known(given.func);
  if (known.name.empty() || !given.kernelParams || at::elementSize(known.type) != 2) return {};
  StepNode made{node, {known.source, known.name, given.gridDimX, given.gridDimY, {}}, known.type};
  std::size_t offset = 0, size = 0;
  for (std::size_t i = 0; driver.parameter(given.func, i, &offset, &size) == CUDA_SUCCESS; ++i) {
    const auto* from = static_cast<const std::byte*>(given.kernelParams[i]);
    made.launch.arguments.resize(offset + size);
    std::copy_n(from, size, made.launch.arguments.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  if (!can_be_step(made.launch)) return {};
  return made;
}

// What a chain reads and writes beside its launches' own.
struct ChainMemory {
  at::Tensor steps, words, parts, turns;
};
ChainMemory memory_of(Chain& chain, at::Device device) {
  const auto bytes = static_cast<std::int64_t>(chain.steps.size());
  const auto on_device = [&](at::ScalarType type) { return at::TensorOptions(device).dtype(type); };
  // Twice the words: launches of a chain take turns with them. Of what nobody has given yet all bits are set.
  return {at::from_blob(chain.steps.data(), {bytes}, at::kByte).to(device),
          at::full({2 * chain.words}, -1, on_device(at::kShort)), at::zeros({chain.parts}, on_device(at::kLong)),
          at::zeros({chain.grid.x}, on_device(at::kInt))};
}

constexpr int kChainCapability = 90;  // copies in bulk

// A chain between two nodes, either of which may be null.
CUgraphNode add(CUgraph graph, const Chain& chain, CUfunction function, const ChainMemory& memory,
                std::array<CUgraphNode, 2> between) {
  const Driver& driver = Gpus::all().driver();
  const auto room = static_cast<int>(chain.grid.shared_bytes);
  check(driver.set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room));
  void *steps = parameter(memory.steps), *words = parameter(memory.words), *parts = parameter(memory.parts),
       *turns = parameter(memory.turns);
  int count = chain.step_count, depth = chain.depth, kept_values = chain.kept_values;
  long long apart = chain.words;
  void* parameters[] = {static_cast<void*>(&steps), &count, static_cast<void*>(&words), &apart,
                        static_cast<void*>(&parts), static_cast<void*>(&turns), &depth, &kept_values};
  CUDA_KERNEL_NODE_PARAMS_v2 made{};
  made.func = function;
  made.gridDimX = static_cast<unsigned>(chain.grid.x), made.gridDimY = static_cast<unsigned>(chain.grid.y);
  made.blockDimX = static_cast<unsigned>(chain.grid.threads);
  made.blockDimY = static_cast<unsigned>(chain.grid.threads_y);
  made.gridDimZ = made.blockDimZ = 1;
  made.sharedMemBytes = static_cast<unsigned>(room);
  made.kernelParams = static_cast<void**>(parameters);
  const auto [before, behind] = between;
  CUgraphNode node = nullptr;
  check(driver.add(&node, graph, &before, before ? 1 : 0, &made));
  CUlaunchAttributeValue together{};  // its blocks wait for one another
  together.cooperative = 1;
  check(driver.change(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &together));
  if (behind) check(driver.depend(graph, &node, &behind, nullptr, 1));
  return node;
}

// Of launches of one type one after another, between two nodes; the last node there is then.
CUgraphNode chain_run(CUgraph graph, std::vector<StepNode> run, std::array<CUgraphNode, 2> between,
                      std::vector<at::Tensor>& kept) {
  Gpus& gpus = Gpus::all();
  const at::Device device(at::kCUDA, c10::cuda::current_device());
  const ChainLimits limits{gpus.multiprocessors(device.index()), gpus.most_room(device.index())};
  const at::ScalarType type = run[0].type;
  std::vector<Launched> launches;
  for (const StepNode& each : run) launches.push_back(each.launch);
  auto [before, behind] = between;
  while (!run.empty()) {
    std::optional<Chain> chain = chain_of(launches, limits);
    if (!chain) {  // the first one stays as it is
      before = run[0].node;
      run.erase(run.begin()), launches.erase(launches.begin());
      continue;
    }
    const auto count = static_cast<std::size_t>(chain->count);
    HONE_ASSERT(count > 0 && count <= run.size());
    const ChainMemory memory = memory_of(*chain, device);
    const CUfunction function = gpus.function(device.index(), chain->kernel, type);
    for (std::size_t i = 0; i < count; ++i) check(gpus.driver().remove(run[i].node));
    before = add(graph, *chain, function, memory, {before, count < run.size() ? run[count].node : behind});
    kept.insert(kept.end(), {memory.steps, memory.words, memory.parts, memory.turns});
    run.erase(run.begin(), run.begin() + chain->count);
    launches.erase(launches.begin(), launches.begin() + chain->count);
  }
  return before;
}

}  // namespace

std::vector<at::Tensor> chain_launches(CUgraph graph) {
  Gpus& gpus = Gpus::all();
  if (!gpus.driver().has_graphs() || gpus.capability(c10::cuda::current_device()) < kChainCapability) return {};
  const std::vector<CUgraphNode> nodes = nodes_in_order(graph);
  std::vector<at::Tensor> kept;
  CUgraphNode before = nullptr;
  for (std::size_t i = 0; i < nodes.size();) {
    std::vector<StepNode> run;
    for (; i < nodes.size(); ++i) {
      std::optional<StepNode> step = step_of(nodes[i]);
      if (!step || (!run.empty() && step->type != run[0].type)) break;
      run.push_back(*std::move(step));
    }
    if (run.empty()) {
      before = nodes[i++];
      continue;
    }
    before = chain_run(graph, std::move(run), {before, i < nodes.size() ? nodes[i] : nullptr}, kept);
  }
  return kept;
}

}  // namespace hone::ops::cuda_table
