#include "ops/cuda/chain.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <variant>

#include "hone/error.h"
#include "ops/cuda/chain_steps.h"

namespace hone::ops::cuda_table {
namespace {

constexpr std::int64_t kHeadsTogether = 16, kLongestNorm = 8192;
constexpr int kValueBytes = 2, kWordsTogether = 8;

enum class Kind { products, gated, decode_64, decode_128, join };
struct StepKernel {
  std::string_view source, name;
  Kind kind;
};
constexpr StepKernel kStepKernels[] = {{"skinny", "products_of_row", Kind::products},
                                       {"skinny", "gated_products_of_row", Kind::gated},
                                       {"decode", "decode_64", Kind::decode_64},
                                       {"decode", "decode_128", Kind::decode_128},
                                       {"decode", "join_parts", Kind::join}};
std::optional<Kind> kind_of(const Launched& launch) {
  for (const StepKernel& each : kStepKernels)
    if (each.source == launch.source && each.name == launch.name) return each.kind;
  return {};
}
template <class Arguments>
Arguments arguments_of(const Launched& launch) {
  Arguments made{};
  HONE_ASSERT(launch.arguments.size() <= sizeof made);
  std::memcpy(static_cast<void*>(&made), launch.arguments.data(), launch.arguments.size());
  return made;
}

std::int64_t cuts_of(const DecodeArguments& a) { return (a.shared + kHeadsTogether - 1) / kHeadsTogether; }
bool is_one_row(const DecodeArguments& a, std::int64_t down) {
  return a.new_k && a.wide != 0 && a.entry_apart == a.size && down == a.groups * cuts_of(a);
}

// Memory that steps read or write: bytes from `at` on.
struct Stretch {
  const char* at = nullptr;
  std::int64_t bytes = 0;
  bool meets(const Stretch& other) const { return at < other.at + other.bytes && other.at < at + bytes; }
};
Stretch values_at(const void* at, std::int64_t count) { return {static_cast<const char*>(at), count * kValueBytes}; }

int whole_words(std::int64_t count) {
  return static_cast<int>((count + kWordsTogether - 1) / kWordsTogether * kWordsTogether);
}

// Steps for launches, one after another, as long as what they read can be told from what the chain writes.
//
// What a step gives to another one goes through words, and by memory only to who comes behind the chain: the last step
// that writes somewhere is the one that does. What is read from memory was there before the chain. It may be written
// again when every block has read it: behind a step that all of them have a share of.
class Steps {
 public:
  explicit Steps(std::int64_t blocks) : blocks_(blocks) {}

  // false: the chain ends before it.
  bool add(const Launched& launch) {
    switch (*kind_of(launch)) {
      case Kind::products:
        return add_products(arguments_of<ProductsArguments>(launch));
      case Kind::gated:
        return add_gated(arguments_of<GatedArguments>(launch));
      case Kind::join:
        return add_join(arguments_of<JoinArguments>(launch));
      default:
        return add_decode(arguments_of<DecodeArguments>(launch), launch.x, *kind_of(launch) == Kind::decode_128);
    }
  }

  std::int64_t count() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t rows_bytes() const { return rows_bytes_; }
  int kept_values() const { return whole_words(kept_values_); }
  std::int64_t words() const { return words_; }
  std::int64_t parts() const { return parts_; }
  int decodes() const { return decodes_; }
  bool is_complete() const { return !joins_; }  // a step's parts are joined
  bool is_wide() const { return is_wide_; }

  std::vector<std::byte> bytes() {
    for (auto each = written_.begin(); each != written_.end(); ++each)
      if (std::any_of(each + 1, written_.end(), [&](const Written& later) { return later.range.meets(each->range); }))
        forget(*each);
    std::vector<std::byte> made(steps_.size() * kStepBytes);
    for (std::size_t i = 0; i < steps_.size(); ++i)
      std::visit([&](const auto& step) { std::memcpy(made.data() + i * kStepBytes, &step, sizeof step); }, steps_[i]);
    return made;
  }

 private:
  enum class Result { sum, first, second, third };
  struct Written {
    Stretch range;
    std::size_t step;
    Result which;
  };
  struct Given {
    Stretch range;
    std::size_t step;
  };
  struct Word {
    int at;
    std::int64_t count;
  };

  // A step's memory that reads it, before it is added.
  struct Rows {
    const void *x, *residual, *norm;
    void* sum;
    double eps;
    std::int64_t in;
  };

  bool add_products(const ProductsArguments& a) {
    ProductsStep step;
    step.split = a.split;
    std::int64_t outs = 0;
    for (std::size_t i = 0; i < kStepWeights; ++i) {
      step.outs[i] = static_cast<int>(a.outs[i]);
      step.weights[i] = a.weights[i], step.biases[i] = a.biases[i], step.to[i] = a.to[i];
      step.groups += (step.outs[i] + 1) / 2;
      outs += step.outs[i];
    }
    if (!take_rows({a.x, a.residual, a.norm, a.sum, a.eps, a.in}, step)) return false;
    return add_step(step, a.x, outs);
  }
  bool add_gated(const GatedArguments& a) {
    ProductsStep step;
    step.kind = kGatedStep, step.activation = a.activation;
    step.groups = step.outs[0] = static_cast<int>(a.outs);
    step.weights = {a.gate, a.up}, step.biases = {a.gate_bias, a.up_bias}, step.to = {a.y};
    if (!take_rows({a.x, a.residual, a.norm, a.sum, a.eps, a.in}, step)) return false;
    return add_step(step, a.x, a.outs);
  }

  bool take_rows(const Rows& rows, ProductsStep& step) {
    step.in = static_cast<int>(rows.in), step.norm = rows.norm, step.eps = rows.eps, step.sum = rows.sum;
    if (const auto word = word_at(rows.x); word && word->count == rows.in && word->at % kWordsTogether == 0)
      step.x_word = word->at;
    else if (is_given(values_at(rows.x, rows.in)))
      step.x = rows.x;
    else
      return false;
    if (!rows.norm || !rows.residual) return true;
    step.residual_from = rows.residual == kept_ && kept_values_ >= rows.in ? kKeptResidual : kGivenResidual;
    if (step.residual_from == kKeptResidual) return true;
    step.residual = rows.residual;
    return is_given(values_at(rows.residual, rows.in));
  }
  // x: by which its rows are known, whether they come as words or from memory.
  bool add_step(ProductsStep& step, const void* x, std::int64_t outs) {
    std::vector<Written> writes;
    if (step.sum) writes.push_back({values_at(step.sum, step.in), steps_.size(), Result::sum});
    for (std::size_t i = 0; i < kStepWeights; ++i)
      if (step.to[i])
        writes.push_back({values_at(step.to[i], step.outs[i]), steps_.size(),
                          static_cast<Result>(static_cast<std::size_t>(Result::first) + i)});
    read_by_all_ = shared_by_all_;  // whoever has x of this step knows that all have been there
    if (!may_write(writes)) return false;
    if (step.norm) {
      kept_ = step.sum ? step.sum : x;
      kept_values_ = std::max<std::int64_t>(kept_values_, step.in);
    }
    if (step.x) given_.push_back({values_at(step.x, step.in), steps_.size()});
    if (step.residual) given_.push_back({values_at(step.residual, step.in), steps_.size()});
    note(writes);
    step.y_word = words_;
    int word = words_;
    for (std::size_t i = 0; i < kStepWeights; word += step.outs[i++])
      if (step.to[i]) known_[step.to[i]] = {word, step.outs[i]};
    words_ += whole_words(outs);
    rows_bytes_ = std::max<std::int64_t>(rows_bytes_, whole_words(step.in) * kValueBytes);
    if (step.groups >= blocks_) shared_by_all_ = steps_.size() + 1;
    steps_.emplace_back(step);
    return true;
  }

  bool add_decode(const DecodeArguments& a, std::int64_t across, bool wide) {
    const auto q = word_at(a.q), k = word_at(a.new_k), v = word_at(a.new_v);
    if (!q || !k || !v || (decodes_ > 0 && wide != is_wide_)) return false;
    const std::int64_t heads = a.groups * a.shared, values = heads * a.size;
    if (!may_write({{values_at(a.y, values), steps_.size(), Result::first}})) return false;
    note({{values_at(a.y, values), steps_.size(), Result::first}});
    DecodeStep step;
    step.across = static_cast<int>(across), step.down = static_cast<int>(a.groups * cuts_of(a));
    step.q_word = q->at, step.k_word = k->at, step.v_word = v->at, step.y_word = words_;
    step.groups = a.groups, step.shared = a.shared, step.size = a.size, step.least = a.least;
    step.k = a.k, step.v = a.v, step.y = a.y, step.held = a.held;
    step.parts_at = parts_, step.window = a.window, step.group_apart = a.group_apart;
    step.cos = a.cos, step.sin = a.sin, step.angles = a.angles, step.sinks = a.sinks;
    step.scale = static_cast<float>(a.scale), step.soft_cap = static_cast<float>(a.soft_cap);
    known_[a.y] = {words_, values};
    words_ += whole_words(values);
    if (across > 1) parts_ += heads * across * (a.size + 2);
    const std::int64_t warps = wide ? 4 : 8, apart = (wide ? 128 : 64) + 1;
    const std::int64_t together = std::min<std::int64_t>(a.shared, kHeadsTogether);
    rows_bytes_ = std::max(rows_bytes_, 2 * (kHeadsTogether + 2) * a.size * kValueBytes +
                                            together * warps * (apart + 2) * static_cast<std::int64_t>(sizeof(float)));
    ++decodes_, is_wide_ = wide, joins_ = across > 1 ? a.y : nullptr;
    steps_.emplace_back(step);
    return true;
  }
  // The step before it does it.
  bool add_join(const JoinArguments& a) { return std::exchange(joins_, nullptr) == a.y; }

  std::optional<Word> word_at(const void* memory) const {
    const auto found = known_.find(memory);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  bool is_given(const Stretch& range) const {
    return std::none_of(written_.begin(), written_.end(), [&](const auto& each) { return each.range.meets(range); });
  }
  bool may_write(const std::vector<Written>& writes) const {
    return std::none_of(given_.begin(), given_.end(), [&](const Given& each) {
      return each.step >= read_by_all_ && std::any_of(writes.begin(), writes.end(), [&](const Written& write) {
               return write.range.meets(each.range);
             });
    });
  }
  void note(const std::vector<Written>& writes) {
    for (const Written& write : writes) {
      std::erase_if(known_,
                    [&](const auto& each) { return values_at(each.first, each.second.count).meets(write.range); });
      written_.push_back(write);
    }
  }
  void forget(const Written& write) {
    if (auto* decode = std::get_if<DecodeStep>(&steps_[write.step])) {
      decode->y = nullptr;
      return;
    }
    auto& step = std::get<ProductsStep>(steps_[write.step]);
    if (write.which == Result::sum)
      step.sum = nullptr;
    else
      step.to[static_cast<std::size_t>(write.which) - static_cast<std::size_t>(Result::first)] = nullptr;
  }

  std::int64_t blocks_;
  std::vector<std::variant<ProductsStep, DecodeStep>> steps_;
  std::map<const void*, Word> known_;  // by where launches would have written it
  std::vector<Written> written_;
  std::vector<Given> given_;
  std::size_t shared_by_all_ = 0;  // behind the last step that every block has a share of
  std::size_t read_by_all_ = 0;    // what steps before this one read, every block has read
  const void *kept_ = nullptr, *joins_ = nullptr;
  std::int64_t kept_values_ = 0, rows_bytes_ = 0, parts_ = 0;
  int words_ = 0, decodes_ = 0;
  bool is_wide_ = false;
};

constexpr std::int64_t kWarps = 8, kSlotBytes = 8192, kGatesBytes = 3 * 8, kOwnBytes = 1600;
constexpr int kDepths[] = {3, 2, 1}, kLeastDecodes = 2;
constexpr std::int64_t kEnoughSteps = 40;

std::int64_t room_for(const Steps& steps, int depth) {
  return kWarps * depth * (kSlotBytes + kGatesBytes) + steps.count() * static_cast<std::int64_t>(kStepBytes) +
         steps.kept_values() * kValueBytes + steps.rows_bytes();
}

// Of as many launches as there is room for beside rings of such a depth.
std::optional<Chain> chain_of_depth(const std::vector<Launched>& launches, const ChainLimits& limits, int depth) {
  std::optional<Steps> last;
  Steps steps(limits.blocks);
  int taken = 0, count = 0;
  for (const Launched& launch : launches) {
    if (!steps.add(launch) || room_for(steps, depth) > limits.room - kOwnBytes) break;
    ++taken;
    if (steps.is_complete()) last = steps, count = taken;
  }
  if (!last || last->decodes() < kLeastDecodes) return {};
  Chain made;
  made.kernel = {"chain", last->is_wide() ? "chain_128" : "chain_64"};
  made.grid = {
      .x = limits.blocks, .threads = static_cast<int>(2 * kWarps * 32), .shared_bytes = room_for(*last, depth)};
  made.count = count, made.step_count = static_cast<int>(last->count()), made.steps = last->bytes();
  made.words = last->words(), made.parts = last->parts();
  made.depth = depth, made.kept_values = last->kept_values();
  return made;
}

}  // namespace

bool can_be_step(const Launched& launch) {
  const auto kind = kind_of(launch);
  if (!kind) return false;
  if (*kind == Kind::products) {
    const auto a = arguments_of<ProductsArguments>(launch);
    return a.rows == 1 && a.wide != 0 && a.outs[kStepWeights] == 0 && (!a.norm || a.in <= kLongestNorm);
  }
  if (*kind == Kind::gated) {
    const auto a = arguments_of<GatedArguments>(launch);
    return a.rows == 1 && a.wide != 0 && (!a.norm || a.in <= kLongestNorm);
  }
  if (*kind == Kind::join) return launch.x == arguments_of<JoinArguments>(launch).heads;
  return is_one_row(arguments_of<DecodeArguments>(launch), launch.y);
}

std::optional<Chain> chain_of(const std::vector<Launched>& launches, const ChainLimits& limits) {
  std::optional<Chain> best;
  for (const int depth : kDepths) {
    std::optional<Chain> made = chain_of_depth(launches, limits, depth);
    if (!made || (best && made->step_count <= best->step_count)) continue;
    best = std::move(made);
    if (best->step_count >= kEnoughSteps) break;
  }
  return best;
}

}  // namespace hone::ops::cuda_table
