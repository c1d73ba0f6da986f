#include "ops/cuda/chaining.h"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/cuda/chain.h"
#include "ops/cuda/gpus.h"

namespace hone::ops::cuda_table {
namespace {

void check(CUresult result) { Gpus::all().driver().check(result, "a chain of launches"); }

// Of a graph whose nodes come one after another; empty: others do.
std::vector<CUgraphNode> nodes_in_order(CUgraph graph) {
  const Driver& driver = Gpus::all().driver();
  std::size_t count = 0;
  check(driver.edges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> how(count);
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
  check(driver.parameters(node, &given));
  const Gpus::Known known = gpus.known(given.func);
  if (known.name.empty() || !given.kernelParams) return {};
  StepNode made{node, {known.source, known.name, given.gridDimX, given.gridDimY, {}}, known.type};
  std::size_t offset = 0, size = 0;
  for (std::size_t i = 0; driver.parameter(given.func, i, &offset, &size) == CUDA_SUCCESS; ++i) {
    const auto* from = static_cast<const std::byte*>(given.kernelParams[i]);
    made.launch.arguments.resize(offset + size);
    std::copy_n(from, size, made.launch.arguments.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  if (!can_be_step(made.launch) || at::elementSize(made.type) != 2) return {};
  return made;
}

// A chain between two nodes, either of which may be null.
CUgraphNode add(CUgraph graph, const Chain& chain, at::ScalarType type, CUgraphNode before, CUgraphNode behind,
                const at::Tensor& steps, const at::Tensor& arrived) {
  Gpus& gpus = Gpus::all();
  const Driver& driver = gpus.driver();
  const CUfunction function = gpus.function(steps.device().index(), chain.kernel, type);
  const auto room = static_cast<int>(chain.grid.shared_bytes);
  check(driver.set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, room));
  void *given = parameter(steps), *counted = parameter(arrived);
  auto count = static_cast<int>(chain.steps.size()), rows_bytes = chain.rows_bytes;
  void* parameters[] = {static_cast<void*>(&given), &count, &rows_bytes, static_cast<void*>(&counted)};
  CUDA_KERNEL_NODE_PARAMS_v2 made{};
  made.func = function;
  made.gridDimX = static_cast<unsigned>(chain.grid.x), made.gridDimY = 1, made.gridDimZ = 1;
  made.blockDimX = static_cast<unsigned>(chain.grid.threads), made.blockDimY = 1, made.blockDimZ = 1;
  made.sharedMemBytes = static_cast<unsigned>(room);
  made.kernelParams = static_cast<void**>(parameters);
  CUgraphNode node = nullptr;
  check(driver.add(&node, graph, &before, before ? 1 : 0, &made));
  CUlaunchAttributeValue together{};  // its blocks wait for one another
  together.cooperative = 1;
  check(driver.change(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &together));
  if (behind) check(driver.depend(graph, &node, &behind, nullptr, 1));
  return node;
}

// Of launches of one type one after another, between two nodes; the last node there is then.
CUgraphNode chain_run(CUgraph graph, std::vector<StepNode> run, CUgraphNode before, CUgraphNode behind,
                      at::Tensor arrived, std::vector<at::Tensor>& kept) {
  std::vector<Launched> launches;
  for (const StepNode& each : run) launches.push_back(each.launch);
  const ChainLimits limits{multiprocessors(arrived), most_room(arrived)};
  for (auto chain = chain_of(launches, limits); chain; chain = chain_of(launches, limits)) {
    const auto count = static_cast<std::ptrdiff_t>(chain->steps.size());
    const auto bytes = static_cast<std::int64_t>(chain->steps.size() * sizeof(ChainStep));
    kept.push_back(at::from_blob(chain->steps.data(), {bytes}, at::kByte).to(arrived.device()));
    const CUgraphNode next = static_cast<std::size_t>(count) < run.size() ? run[static_cast<std::size_t>(count)].node
                                                                            : behind;
    const at::ScalarType type = run[0].type;
    std::for_each_n(run.begin(), count, [](const StepNode& each) { check(Gpus::all().driver().remove(each.node)); });
    before = add(graph, *chain, type, before, next, kept.back(), arrived);
    run.erase(run.begin(), run.begin() + count);
    launches.erase(launches.begin(), launches.begin() + count);
  }
  return run.empty() ? before : run.back().node;
}

}  // namespace

std::vector<at::Tensor> chain_launches(CUgraph graph) {
  if (!Gpus::all().driver().has_graphs()) return {};
  const std::vector<CUgraphNode> nodes = nodes_in_order(graph);
  std::vector<at::Tensor> kept;
  CUgraphNode before = nullptr;
  for (std::size_t i = 0; i < nodes.size();) {
    std::vector<StepNode> run;
    for (auto step = step_of(nodes[i]); step; step = step_of(nodes[i])) {
      if (!run.empty() && step->type != run[0].type) break;
      run.push_back(*std::move(step));
      if (++i == nodes.size()) break;
    }
    if (run.empty()) {
      before = nodes[i++];
      continue;
    }
    if (kept.empty()) {  // how many blocks have come, of all chains: they run one after another
      const at::Device device(at::kCUDA, c10::cuda::current_device());
      kept.push_back(at::zeros({1}, at::TensorOptions(device).dtype(at::kLong)));
    }
    before = chain_run(graph, std::move(run), before, i < nodes.size() ? nodes[i] : nullptr, kept[0], kept);
  }
  return kept;
}

}  // namespace hone::ops::cuda_table
