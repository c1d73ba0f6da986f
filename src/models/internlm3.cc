// InternLM3 (Shanghai AI Laboratory, 2025) and IQuest-Coder (IQuest Lab, 2026): Llama, with keys of their own.
#include <fmt/format.h>

#include "hone/config_read.h"
#include "hone/registry.h"
#include "models/llama_stack.h"

namespace hone::models {
namespace {

struct InternLm3Config : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<bool> qkv_bias, bias;

  static constexpr auto fields() {
    using C = InternLm3Config;
    return std::tuple_cat(LlamaConfig::fields(),
                          std::tuple{field("qkv_bias", &C::qkv_bias, "attention_bias by another name."),
                                     field("bias", &C::bias, "mlp_bias by another name.")});
  }
  void validate(Problems& problems) const;
};

struct IQuestCoderConfig : LlamaConfig {
  using Base = LlamaConfig;
  std::optional<double> clip_qkv;

  static constexpr auto fields() {
    return std::tuple_cat(LlamaConfig::fields(),
                          std::tuple{field("clip_qkv", &IQuestCoderConfig::clip_qkv, "Only null.")});
  }
  void validate(Problems& problems) const;
};

LlamaShape resolve(const InternLm3Config& given, Problems& problems) {
  InternLm3Config c = given;
  if (given.qkv_bias) c.attention_bias = given.qkv_bias;
  if (given.bias) c.mlp_bias = given.bias;
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  refuse_rare_keys(c, /*lists_layers=*/false, problems);
  const auto same = [&](const char* key, std::optional<bool> other, const char* usual, std::optional<bool> named) {
    problems.require(!other || !named || *other == *named, key, fmt::format("differs from {}, its other name", usual));
  };
  same("qkv_bias", given.qkv_bias, "attention_bias", given.attention_bias);
  same("bias", given.bias, "mlp_bias", given.mlp_bias);
  problems.require(
      s.qkv_bias == s.mlp_bias, given.qkv_bias ? "qkv_bias" : "attention_bias",
      fmt::format("got {}, expected {}, as bias says: transformers has biases in all projections or in none",
                  s.qkv_bias, s.mlp_bias));
  return s;
}

LlamaShape resolve(const IQuestCoderConfig& c, Problems& problems) {
  LlamaShape s;
  if (!resolve_base(c, s, problems)) return s;
  problems.require(!c.clip_qkv, "clip_qkv", "got a number, expected null, as transformers has it");
  problems.require(!c.use_sliding_window.value_or(false), "use_sliding_window",
                   "got true, expected false, as transformers has it");
  return s;
}

void InternLm3Config::validate(Problems& problems) const { resolve(*this, problems); }
void IQuestCoderConfig::validate(Problems& problems) const { resolve(*this, problems); }

template <class C>
class NamedLlama final : public LlamaStack {
 public:
  NamedLlama(const C& config, const HeadRequest& head) : LlamaStack(shape_of(config, head)), config_(config) {}
  config::Node hf_config() const override { return to_hf_config(config_, s, dtype()); }

 private:
  C config_;
};

}  // namespace

void register_internlm3(Registries& hone) {
  hone.models.add<NamedLlama<InternLm3Config>, InternLm3Config>("internlm3", "InternLM3: Llama by another name.");
  hone.models.add<NamedLlama<IQuestCoderConfig>, IQuestCoderConfig>("iquestcoder", "IQuest-Coder: Llama, likewise.");
}

}  // namespace hone::models
