// The sources of src/ops/cuda that know nothing of CUDA's headers, under another name; they launch on the emulated GPU.
#include "cuda/emulated_table.h"

#define cuda_table emulated_table
#define HONE_WITHOUT_CUDNN
#include "ops/cuda/attention.cc"
#include "ops/cuda/attention_backward.cc"
#include "ops/cuda/chain.cc"
#include "ops/cuda/decode.cc"
#include "ops/cuda/elementwise.cc"
#include "ops/cuda/float8.cc"
#include "ops/cuda/fused_attention.cc"
#include "ops/cuda/grouped.cc"
#include "ops/cuda/norms.cc"
#include "ops/cuda/products.cc"
#include "ops/cuda/routed.cc"
#include "ops/cuda/router.cc"
#include "ops/cuda/sums.cc"
#include "ops/cuda/updates.cc"
#undef HONE_WITHOUT_CUDNN
#undef cuda_table

#include "cuda/emulated_kernels.h"

namespace hone::ops {
namespace emulated_table {
namespace {

std::int64_t launches = 0;

// A launch that waits for the others of its chain.
struct Captured {
  Launched launch;
  at::ScalarType type;
};
std::vector<Captured>* captured = nullptr;
Captured captured_of(const Kernel& kernel, const at::Tensor& like, const Grid& grid,
                     std::span<const Argument> arguments) {
  Captured made{{kernel.source, kernel.name, grid.x, grid.y, {}}, like.scalar_type()};
  for (const Argument& each : arguments) {
    const std::size_t unit = each.bytes % 8 == 0 ? 8 : 4;  // those of steps have words and what is twice as long
    const std::size_t offset = (made.launch.arguments.size() + unit - 1) / unit * unit;
    made.launch.arguments.resize(offset + each.bytes);
    std::memcpy(made.launch.arguments.data() + offset, each.at, each.bytes);
  }
  if (!can_be_step(made.launch)) throw std::runtime_error(std::string(kernel.name) + ": cannot be a step of a chain");
  return made;
}

// Keeps what was allocated while it lives: a chain's memory is used after its tensors are gone.
class Keeping final : public c10::Allocator {
 public:
  Keeping() : before_(c10::GetAllocator(at::kCPU)) { c10::SetAllocator(at::kCPU, this, 1); }
  ~Keeping() override { give_back(); }
  void give_back() { c10::SetAllocator(at::kCPU, before_, 1); }
  c10::DataPtr allocate(std::size_t bytes) override {
    kept_.push_back(before_->allocate(bytes));
    return {kept_.back().get(), at::kCPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  c10::Allocator* before_;
  std::vector<c10::DataPtr> kept_;
};

constexpr std::int64_t kMostRoomBefore = 98 << 10;  // of GPUs of 8.6

const emulated::Kernels& kernels_for(at::ScalarType type) {
  static const std::map<at::ScalarType, emulated::Kernels> all = {
      {at::kFloat, emulated::of_float::all_kernels()},
      {at::kDouble, emulated::of_double::all_kernels()},
      {at::kBFloat16, emulated::of_bf16::all_kernels()},
      {at::kHalf, emulated::of_half::all_kernels()},
  };
  return all.at(type);
}

}  // namespace

int capability(const at::Tensor&) { return emulated_capability(); }
std::int64_t multiprocessors(const at::Tensor&) { return emulated_multiprocessors(); }
std::int64_t most_room(const at::Tensor&) { return kMostRoomBefore; }
bool has_tensor_cores(const at::Tensor&) { return true; }

// Products by groups of what the kernels do not take are the reference's.
void grouped(at::Tensor& out, const std::vector<GroupedFactors>& factors, const RowGroups& groups) {
  if (!multiply_groups(out, factors, groups)) reference_table::products().grouped(out, factors, groups);
}
void over_groups(const at::Tensor& a, const at::Tensor& b, const RowGroups& groups, const std::vector<Target>& to) {
  if (!multiply_over_groups(a, b, groups, to)) reference_table::products().over_groups(a, b, groups, to);
}

void launch_with(const Kernel& kernel, const at::Tensor& like, const Grid& grid, std::span<const Argument> arguments) {
  std::string name = std::string(kernel.source) + "/" + kernel.name;
  if (!kernel.element.empty()) name += "/" + std::string(kernel.element);
  const emulated::Callable& called = kernels_for(like.scalar_type()).at(name);
  std::vector<void*> at;
  std::vector<std::size_t> sizes;
  for (const Argument& each : arguments) {
    at.push_back(each.at);
    sizes.push_back(each.bytes);
  }
  if (sizes != called.sizes) throw std::runtime_error(name + ": got arguments of other sizes than it takes");
  if (captured) return captured->push_back(captured_of(kernel, like, grid, arguments));
  if (emulated_capability() < 90 && grid.shared_bytes > kMostRoomBefore)
    throw std::runtime_error(name + ": more room for a block than such a GPU gives it");
  ++launches;
  emulated::Machine::launch({static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), 1}, grid.threads,
                            static_cast<std::size_t>(grid.shared_bytes), [&] { called.call(at); }, grid.threads_y,
                            grid.early);
}

}  // namespace emulated_table

const Backend& emulated_backend() {
  static const Backend table{"emulated",
                             /*on_host=*/false,
                             reference_backend().takes,
                             {.into = reference_table::products().into,
                              .with_packed = reference_table::products().with_packed,
                              .skinny = emulated_table::products().skinny,
                              .skinny_gated = emulated_table::products().skinny_gated,
                              .grouped = emulated_table::grouped,
                              .over_groups = emulated_table::over_groups,
                              .to_float8 = emulated_table::cast_to_float8,
                              .float8_into = emulated_table::float8_products,
                              .norm_skinny = emulated_table::products().norm_skinny,
                              .norm_skinny_gated = emulated_table::products().norm_skinny_gated,
                              .joins_neighbours = emulated_table::products().joins_neighbours},
                             emulated_table::attention(),
                             emulated_table::norms(),
                             reference_table::mlstm(),
                             reference_table::gated_delta(),
                             reference_table::ssd(),
                             reference_table::selective_scan(),
                             reference_table::short_conv(),
                             emulated_table::elementwise(),
                             emulated_table::sums(),
                             emulated_table::routed(),
                             emulated_table::updates()};
  return table;
}

AttentionGradients emulated_attention_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                               const Documents& documents, const AttentionOptions& options,
                                               std::int64_t most_kept_bytes) {
  return emulated_table::ordered_attention_backward(dy_NHK, saved, emulated_table::on_device(documents, dy_NHK).packed,
                                                    options, most_kept_bytes)
      .value();
}

Backend::Products emulated_products() { return emulated_table::products(); }

EmulatedChain emulated_chain(const std::function<std::vector<at::Tensor>()>& work, int launches,
                             const std::function<void(int)>& before_launch) {
  namespace table = emulated_table;
  table::Keeping keeping;
  std::vector<table::Captured> all;
  table::captured = &all;
  const std::vector<at::Tensor> given = work();
  table::captured = nullptr;
  keeping.give_back();
  const auto blocks = static_cast<unsigned>(emulated_multiprocessors());
  std::vector<table::Launched> launched;
  for (const table::Captured& each : all) launched.push_back(each.launch);
  std::optional<table::Chain> chain = table::chain_of(launched, {blocks, emulated::Machine::kMostRoom});
  if (!chain || chain->count != static_cast<int>(all.size())) throw std::runtime_error("launches that are no chain");
  const at::Tensor words = at::full({2 * chain->words}, -1, at::kShort), parts = at::zeros({chain->parts}, at::kLong),
                   turns = at::full({blocks}, 6, at::kInt);
  const void* steps = chain->steps.data();
  void *of_words = words.data_ptr(), *of_parts = parts.data_ptr(), *of_turns = turns.data_ptr();
  long long apart = chain->words;
  const emulated::Callable& called = table::kernels_for(all[0].type).at(std::string("chain/") + chain->kernel.name);
  for (int i = 0; i < launches; ++i) {
    before_launch(i);
    emulated::Machine::launch_together(blocks, chain->grid.threads, static_cast<std::size_t>(chain->grid.shared_bytes),
                                       [&] {
                                         called.call({&steps, &chain->step_count, &of_words, &apart, &of_parts,
                                                      &of_turns, &chain->depth, &chain->kept_values});
                                       });
  }
  EmulatedChain made{{}, chain->step_count, chain->depth};
  for (const at::Tensor& each : given) made.results.push_back(each.defined() ? each.clone() : each);
  return made;
}

int& emulated_capability() {
  static int capability = 0;
  return capability;
}
int& emulated_multiprocessors() {
  static int multiprocessors = 1;
  return multiprocessors;
}
std::int64_t emulated_launches() { return emulated_table::launches; }

}  // namespace hone::ops
