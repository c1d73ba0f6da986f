// AdamW with moments of a byte each: Dettmers et al., 2021, arXiv:2110.02861.
#include "optim/adam.h"
#include "optim/dynamic_8bit.h"

namespace hone::optim {
namespace {

// Weights below this size keep their moments as they are, as bitsandbytes and torchao do.
constexpr std::int64_t kLeast = 4096;

// A moment as it is kept: codes and a scale for each block of them.
struct Moment {
  std::uint8_t* codes;
  float* scales;
  const float* values;
};

[[gnu::always_inline]] inline void read(const Moment& from, std::int64_t begin, std::int64_t size, float* to) {
  const float scale = from.scales[begin / kQuantizedBlock];
#pragma omp simd
  for (std::int64_t i = 0; i < size; ++i) to[i] = from.values[from.codes[begin + i]] * scale;
}

[[gnu::always_inline]] inline void write(const float* from, std::int64_t size, std::int64_t begin, const Moment& to) {
  to.scales[begin / kQuantizedBlock] = quantize(from, size, to.values, to.codes + begin);
}

// The meaning, in ATen.
Tensor values_on(const Tensor& like, bool is_signed) {
  return at::from_blob(const_cast<float*>(dynamic_values(is_signed).data()), {256}, at::kFloat).to(like.device());
}
Tensor read(const Tensor& codes, const Tensor& scales, bool is_signed) {
  const Tensor flat = values_on(scales, is_signed).index_select(0, codes.view(-1).to(at::kInt));
  return flat.mul(scales.repeat_interleave(kQuantizedBlock).narrow(0, 0, flat.numel())).view(codes.sizes());
}
void write(const Tensor& moment, bool is_signed, Tensor& codes, Tensor& scales) {
  const std::int64_t blocks = scales.numel(), size = moment.numel();
  const Tensor padded = at::zeros({blocks * kQuantizedBlock}, moment.options());
  padded.narrow(0, 0, size).copy_(moment.view(-1));
  const Tensor rows = padded.view({blocks, kQuantizedBlock});
  scales.copy_(rows.abs().amax(1).clamp_min(1e-12));
  const Tensor shares = (rows / scales.unsqueeze(1)).view(-1).narrow(0, 0, size), values = values_on(moment, is_signed);
  const Tensor code = (at::searchsorted(values, shares, /*out_int32=*/false, /*right=*/true) - 1).clamp_min(0);
  const Tensor above = (code + 1).clamp_max(255), below = values.index_select(0, code);
  const Tensor up = shares - below >= (values.index_select(0, above) - below) * 0.5;
  codes.copy_(at::where(up, above, code).to(at::kByte).view(codes.sizes()));
}

class AdamW8bit final : public Frame<AdamW::Config, 4> {
 public:
  using Config = AdamW::Config;
  explicit AdamW8bit(const Config& config)
      : Frame(config, {"exp_avg", "exp_avg_sq", "exp_avg_scale", "exp_avg_sq_scale"}) {}

  void attach(std::span<OptimizedWeight> weights) override {
    for (const OptimizedWeight& weight : weights) {
      const Tensor& w = weight.master;
      State& state = add(weight);
      const bool small = w.numel() < kLeast || w.scalar_type() != at::kFloat;
      for (std::size_t kind = 0; kind < 2; ++kind) {
        state[kind] = small ? at::zeros_like(w) : at::zeros(w.sizes(), w.options().dtype(at::kByte));
        if (small) continue;
        state[kind].fill_(kind == 0 ? 127 : 0);  // the code of 0
        state[kind + 2] = at::zeros({(w.numel() + kQuantizedBlock - 1) / kQuantizedBlock}, w.options());
      }
    }
  }

  void update(std::span<OptimizedWeight> weights, const UpdateStep& step) override {
    const double rate = this->rate(step);
    const AdamW::Values values = AdamW::values(config_, step.update, rate);
    const auto common_for = [&](const OptimizedWeight& weight) {
      return Common{.gradient_scale = step.gradient_scale, .keep = 1 - rate * decay_of(weight)};
    };
    update_blocks(
        weights,
        [&](const OptimizedWeight& weight, const Block& block) {
          const bool wide = weight.master.scalar_type() == at::kDouble, bytes = states_[weight.index][2].defined();
          bytes  ? run_bytes(weight, block, values, common_for(weight))
          : wide ? run<double>(weight, block, values, common_for(weight))
                 : run<float>(weight, block, values, common_for(weight));
        },
        [&](const OptimizedWeight& weight) {
          run_plain(weight, values, common_for(weight));
          write_rounded(weight);
        });
  }

 private:
  template <class T>
  void run(const OptimizedWeight& weight, const Block& block, const AdamW::Values& values, const Common& common) {
    const State& state = states_[weight.index];
    const Elements<T, AdamW> x{
        weight.master.mutable_data_ptr<T>() + block.begin,
        weight.gradient.const_data_ptr<T>() + block.begin,
        {state[0].mutable_data_ptr<T>() + block.begin, state[1].mutable_data_ptr<T>() + block.begin},
        block.end - block.begin};
    ops::vectorised([&] { update_block(x, values, common); });
  }

  void run_bytes(const OptimizedWeight& weight, const Block& block, const AdamW::Values& values, const Common& common) {
    State& state = states_[weight.index];
    const auto moment = [&](std::size_t kind) {
      return Moment{state[kind].mutable_data_ptr<std::uint8_t>(), state[kind + 2].mutable_data_ptr<float>(),
                    dynamic_values(kind == 0).data()};
    };
    const Moment first = moment(0), second = moment(1);
    float* w = weight.master.mutable_data_ptr<float>();
    const float* g = weight.gradient.const_data_ptr<float>();
    ops::vectorised([&] {
      alignas(64) float m[kQuantizedBlock], v[kQuantizedBlock];
      for (std::int64_t begin = block.begin; begin < block.end; begin += kQuantizedBlock) {
        const std::int64_t size = block.end - begin < kQuantizedBlock ? block.end - begin : kQuantizedBlock;
        read(first, begin, size, m), read(second, begin, size, v);
        update_block(Elements<float, AdamW>{w + begin, g + begin, {m, v}, size}, values, common);
        write(m, size, begin, first), write(v, size, begin, second);
      }
    });
  }

  void run_plain(const OptimizedWeight& weight, const AdamW::Values& values, const Common& common) {
    State& state = states_[weight.index];
    Tensor master = weight.master;
    const Tensor gradient = gradient_of(weight.gradient, master, common);
    master.mul_(common.keep);
    if (!state[2].defined()) {
      std::array<Tensor, 2> moments{state[0], state[1]};
      return AdamW::plain(master, gradient, moments, values);
    }
    std::array<Tensor, 2> moments{read(state[0], state[2], true), read(state[1], state[3], false)};
    AdamW::plain(master, gradient, moments, values);
    write(moments[0], true, state[0], state[2]), write(moments[1], false, state[1], state[3]);
  }
};

}  // namespace

void register_adamw_8bit(Registries& hone) {
  hone.optimizers.add<AdamW8bit>("adamw_8bit", "AdamW whose moments take a byte each instead of four.");
}

}  // namespace hone::optim
