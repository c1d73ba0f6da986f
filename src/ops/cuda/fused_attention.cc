// cuDNN builds a plan for each shape, in a tenth of a second or more. So what differs from batch to batch, how many
// sequences there are and how long the longest is, is rounded up.
#include "ops/cuda/fused_attention.h"

#include <ATen/ATen.h>
// Of a LibTorch of somebody else's the headers may not be there; an emulated GPU has no cuDNN.
#if __has_include(<cudnn_frontend.h>) && !defined(HONE_WITHOUT_CUDNN)
#include <ATen/cudnn/Handle.h>
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <bit>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "ops/cuda/table.h"

namespace hone::ops::cuda_table {
namespace {

namespace fe = cudnn_frontend;
using Attributes = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int kFusedCapability = 90;
constexpr std::int64_t kMostFusedSize = 128, kLeastLength = 64, kLeastTokens = 1024;

// Of a plan's tensors.
namespace names {
enum Name : std::int64_t { q = 1, k, v, y, lse, dy, dq, dk, dv, q_lengths, k_lengths, q_at, k_at, v_at, y_at, lse_at };
}
using names::Name;

// How the tokens and heads of a matrix lie, in values.
struct Strides {
  std::int64_t token = 0, head = 0;
  auto operator<=>(const Strides&) const = default;
};
Strides strides_of(const at::Tensor& x) { return {x.stride(0), x.stride(1)}; }

// All that a plan is made for.
struct Shape {
  int device;
  at::ScalarType type;
  bool backward, causal;
  std::int64_t sequences, most_queries, most_keys, tokens, heads, groups, size, window;
  double scale;
  Strides q, k, v;
  auto operator<=>(const Shape&) const = default;
};

std::int64_t rounded_up(std::int64_t count, std::int64_t least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(count, least))));
}

Shape shape_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Packed& packed,
               const AttentionOptions& options, bool backward) {
  return {.device = q.get_device(),
          .type = q.scalar_type(),
          .backward = backward,
          .causal = options.mask.kind == Mask::Kind::causal,
          .sequences = packed.q_ends().size(0) - 1,
          .most_queries = rounded_up(packed.most_queries(), kLeastLength),
          .most_keys = rounded_up(packed.most_keys(), kLeastLength),
          .tokens = rounded_up(std::max(q.size(0), k.size(0)), kLeastTokens),
          .heads = q.size(1),
          .groups = k.size(1),
          .size = q.size(2),
          .window = options.mask.window,
          .scale = options.scale,
          .q = strides_of(q),
          .k = strides_of(k),
          .v = strides_of(v)};
}

// A plan's graph while it is made.
class Maker {
 public:
  explicit Maker(const Shape& shape) : shape_(shape) {
    graph_->set_io_data_type(shape.type == at::kHalf ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  std::shared_ptr<fe::graph::Graph> make() {
    const Attributes queries = rows(Name::q, q_sizes(), shape_.q, Name::q_at);
    const Attributes keys = rows(Name::k, k_sizes(), shape_.k, Name::k_at);
    const Attributes values = rows(Name::v, k_sizes(), shape_.v, Name::v_at);
    shape_.backward ? add_backward(queries, keys, values) : add_forward(queries, keys, values);
    return graph_;
  }

 private:
  using Sizes = std::vector<std::int64_t>;
  Sizes q_sizes() const { return {shape_.sequences, shape_.heads, shape_.most_queries, shape_.size}; }
  Sizes k_sizes() const { return {shape_.sequences, shape_.groups, shape_.most_keys, shape_.size}; }
  Strides dense(std::int64_t heads) const { return {heads * shape_.size, shape_.size}; }
  // Where sequences begin says `at`, not the first stride.
  static Sizes strides(const Strides& lie) { return {std::numeric_limits<int>::max(), lie.head, lie.token, 1}; }
  static Sizes side_by_side() { return {1, 1, 1, 1}; }

  Attributes numbers(Name name, std::int64_t count) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_uid(name)
                              .set_dim({count, 1, 1, 1})
                              .set_stride(side_by_side())
                              .set_data_type(fe::DataType_t::INT32));
  }
  Attributes places(Name at) {
    auto [made, is_new] = places_.try_emplace(at);
    if (is_new) made->second = numbers(at, shape_.sequences + 1);
    return made->second;
  }
  Attributes rows(Name name, const Sizes& sizes, const Strides& lie, Name at) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_uid(name)
                              .set_dim(sizes)
                              .set_stride(strides(lie))
                              .set_ragged_offset(places(at)));
  }
  void set_rows(const Attributes& made, Name name, const Sizes& sizes, const Strides& lie, Name at) {
    made->set_output(true).set_uid(name).set_dim(sizes).set_stride(strides(lie)).set_ragged_offset(places(at));
  }
  template <class T>
  void set_lse(T& attributes) {
    attributes.set_uid(Name::lse)
        .set_dim({shape_.sequences, shape_.heads, shape_.most_queries, 1})
        .set_stride({shape_.most_queries * shape_.heads, 1, shape_.heads, 1})
        .set_data_type(fe::DataType_t::FLOAT)
        .set_ragged_offset(places(Name::lse_at));
  }
  template <class Options>
  Options options() {
    Options made;
    made.set_attn_scale(static_cast<float>(shape_.scale))
        .set_padding_mask(true)
        .set_seq_len_q(numbers(Name::q_lengths, shape_.sequences))
        .set_seq_len_kv(numbers(Name::k_lengths, shape_.sequences));
    if (shape_.causal)
      made.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
    if (shape_.window > 0) made.set_diagonal_band_left_bound(static_cast<int>(shape_.window));
    return made;
  }

  void add_forward(const Attributes& queries, const Attributes& keys, const Attributes& values) {
    auto options = this->options<fe::graph::SDPA_attributes>();
    options.set_generate_stats(true);
    auto [y, lse] = graph_->sdpa(queries, keys, values, options);
    set_rows(y, Name::y, q_sizes(), dense(shape_.heads), Name::y_at);
    set_lse(lse->set_output(true));
  }
  void add_backward(const Attributes& queries, const Attributes& keys, const Attributes& values) {
    auto options = this->options<fe::graph::SDPA_backward_attributes>();
    options.set_max_total_seq_len_q(shape_.tokens).set_max_total_seq_len_kv(shape_.tokens);
    const Strides wide = dense(shape_.heads), narrow = dense(shape_.groups);
    const Attributes y = rows(Name::y, q_sizes(), wide, Name::y_at), dy = rows(Name::dy, q_sizes(), wide, Name::y_at);
    fe::graph::Tensor_attributes lse;
    set_lse(lse);
    auto [dq, dk, dv] = graph_->sdpa_backward(queries, keys, values, y, dy, graph_->tensor(lse), options);
    // They lie as what they are of, which is dense here.
    set_rows(dq, Name::dq, q_sizes(), wide, Name::y_at);
    set_rows(dk, Name::dk, k_sizes(), narrow, Name::k_at);
    set_rows(dv, Name::dv, k_sizes(), narrow, Name::v_at);
  }

  const Shape& shape_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
  std::map<Name, Attributes> places_;
};

// Null: there is no kernel for it.
std::shared_ptr<fe::graph::Graph> made_plan(const Shape& shape) {
  auto graph = Maker(shape).make();
  fe::error_t result = graph->build(at::native::getCudnnHandle(), {fe::HeurMode_t::A});
  if (result.is_good()) return graph;
  log::debug("cuDNN has no attention for {} heads of {}: {}", shape.heads, shape.size, result.get_message());
  return nullptr;
}

std::shared_ptr<fe::graph::Graph> plan_of(const Shape& shape) {
  static std::mutex mutex;
  static auto& plans = *new std::map<Shape, std::shared_ptr<fe::graph::Graph>>;  // the library may be gone at the end
  const std::lock_guard lock(mutex);
  auto found = plans.find(shape);
  if (found == plans.end()) found = plans.emplace(shape, made_plan(shape)).first;
  return found->second;
}

using Memory = std::unordered_map<std::int64_t, void*>;

class Execution {
 public:
  Execution(const Shape& shape, const Packed& packed) : plan_(plan_of(shape)), packed_(packed) {}
  bool possible() const { return plan_ != nullptr; }
  void with(Name name, const at::Tensor& x) { memory_[name] = x.data_ptr(); }
  void run() {
    with(Name::q_lengths, packed_.of_queries(0)), with(Name::k_lengths, packed_.of_keys(0));
    const at::Tensor room = at::empty({std::max<std::int64_t>(1, plan_->get_workspace_size())},
                                      packed_.q_ends().options().dtype(at::kByte));
    fe::error_t result = plan_->execute(at::native::getCudnnHandle(), memory_, room.data_ptr());
    TORCH_CHECK(result.is_good(), "cuDNN: ", result.get_message());
  }

 private:
  std::shared_ptr<fe::graph::Graph> plan_;
  const Packed& packed_;
  Memory memory_;
};

bool takes(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  const auto type = q.scalar_type();
  const auto fits = [](const at::Tensor& x) { return x.numel() < std::numeric_limits<std::int32_t>::max(); };
  return (type == at::kBFloat16 || type == at::kHalf) && q.size(2) <= kMostFusedSize && q.size(2) % 8 == 0 &&
         options.soft_cap == 0 && options.dropout == 0 &&
         (options.mask.kind == Mask::Kind::causal || options.mask.window == 0) && capability(q) >= kFusedCapability &&
         fits(q) && fits(k);
}

}  // namespace

const at::Tensor& Packed::made(const at::Tensor& ends, std::int64_t row) const {
  auto [found, is_new] = shared_->made.try_emplace({ends.unsafeGetTensorImpl(), row});
  if (is_new) found->second = row == 0 ? ends.slice(0, 1) - ends.slice(0, 0, -1) : ends * row;
  return found->second;
}

std::optional<Attended> fused_attention(const at::Tensor& q_NHK, const at::Tensor& k_LGK, const at::Tensor& v_LGK,
                                        const Packed& packed, const AttentionOptions& options) {
  if (!takes(q_NHK, k_LGK, options)) return {};
  Execution execution(shape_of(q_NHK, k_LGK, v_LGK, packed, options, /*backward=*/false), packed);
  if (!execution.possible()) return {};
  Attended made{at::empty(q_NHK.sizes(), q_NHK.options()),
                at::empty({q_NHK.size(0), q_NHK.size(1)}, wide_options(q_NHK)).t()};
  execution.with(Name::lse, made.lse_HN), execution.with(Name::lse_at, packed.of_queries(q_NHK.size(1)));
  execution.with(Name::q, q_NHK), execution.with(Name::q_at, packed.of_queries(q_NHK.stride(0)));
  execution.with(Name::k, k_LGK), execution.with(Name::k_at, packed.of_keys(k_LGK.stride(0)));
  execution.with(Name::v, v_LGK), execution.with(Name::v_at, packed.of_keys(v_LGK.stride(0)));
  execution.with(Name::y, made.y_NHK), execution.with(Name::y_at, packed.of_queries(made.y_NHK.stride(0)));
  execution.run();
  return made;
}

std::optional<AttentionGradients> fused_attention_backward(const at::Tensor& dy_NHK, const AttentionSaved& saved,
                                                           const Packed& packed, const AttentionOptions& options) {
  // Gradients lie as densely as what they are of: it is made so, if it is not.
  const at::Tensor q = saved.q_NHK.contiguous(), k = saved.k_NGK.contiguous(), v = saved.v_NGK.contiguous();
  const at::Tensor y = saved.result.y_NHK.contiguous(), dy = dy_NHK.contiguous(), lse = saved.result.lse_HN.t();
  if (!takes(q, k, options) || !lse.is_contiguous()) return {};
  Execution execution(shape_of(q, k, v, packed, options, /*backward=*/true), packed);
  if (!execution.possible()) return {};
  AttentionGradients made{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  for (const auto& [name, x] : {std::pair(Name::q, q), {Name::k, k}, {Name::v, v}, {Name::y, y}, {Name::dy, dy},
                                {Name::lse, lse}, {Name::dq, made.q_NHK}, {Name::dk, made.k_NGK},
                                {Name::dv, made.v_NGK}})
    execution.with(name, x);
  execution.with(Name::q_at, packed.of_queries(q.stride(0))), execution.with(Name::k_at, packed.of_keys(k.stride(0)));
  execution.with(Name::y_at, packed.of_queries(y.stride(0))), execution.with(Name::v_at, packed.of_keys(v.stride(0)));
  execution.with(Name::lse_at, packed.of_queries(lse.stride(0)));
  execution.run();
  return made;
}

}  // namespace hone::ops::cuda_table
#else

namespace hone::ops::cuda_table {

std::optional<Attended> fused_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const Packed&,
                                        const AttentionOptions&) {
  return {};
}
std::optional<AttentionGradients> fused_attention_backward(const at::Tensor&, const AttentionSaved&, const Packed&,
                                                           const AttentionOptions&) {
  return {};
}

}  // namespace hone::ops::cuda_table
#endif
